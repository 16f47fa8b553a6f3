/*
 * The DPDK plug-in of Catena: a narrow edge between the port `dpdk` and the DPDK of this machine.
 *
 * SPDX-License-Identifier: Apache-2.0
 *
 * `catena port dpdk build` compiles it; a worker with such a port loads it. What crosses the edge
 * are numbers of buffers, offsets and lengths: no type of DPDK does, so that one Catena works with
 * every DPDK this file compiles with (22.11 at least). crates/port/src/dpdk/sys.rs is the other
 * side; the two change together, with CATENA_DPDK_ABI.
 *
 * Each device has a pool of packet headers (mbufs), one for each buffer of Catena's pool, for ever.
 * Buffer n is with DPDK exactly while header n is: `post` and `tx` give it, `rx` and `reap` return
 * it. Devices that need packets in DPDK's own memory (`copies`) have a pool of their own there, and
 * packets are copied here. One thread at a time calls into a device; threads of DPDK's own may give
 * headers back (`put`).
 */
#define _GNU_SOURCE
#define ALLOW_EXPERIMENTAL_API
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_bus.h>
#include <rte_dev.h>
#include <rte_devargs.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_flow.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_mbuf.h>
#include <rte_memory.h>
#include <rte_mempool.h>
#include <rte_spinlock.h>
#include <rte_version.h>

#define CATENA_DPDK_ABI 4
#define QUEUES_MAX 16
#define BURST 256
/* Ethernet header and checksum. */
#define FRAME_EXTRA (RTE_ETHER_HDR_LEN + RTE_ETHER_CRC_LEN)
/* Different memories of the worker that cards are shown at a time. */
#define MEMORIES_MAX 16
/* Packets of DPDK's own that a device which copies has, beside what its rings hold. */
#define OWN_PACKETS 2048
#define TEXT 512

/* ---- what crosses the edge ---- */

/* Which packets the device tells apart, and what it does with them. */
struct catena_dpdk_rule {
	uint8_t source[16], destination[16]; /* IPv4: the first four bytes */
	uint32_t has_source, has_destination;
	uint32_t ip;	   /* 4, 6, or 0: not looked at */
	uint32_t protocol; /* of IP; 0: not looked at */
	/* ANY: not looked at, or not said */
	uint32_t ether_type, vlan, source_port, destination_port, queue;
	uint32_t mark;	   /* 16 bits; 0: none */
	uint32_t priority; /* the lowest comes first */
};

#define ANY UINT32_MAX

struct catena_dpdk_device {
	const char *args;   /* as DPDK takes them: name or address, and arguments */
	const char *driver; /* net_memif, say; empty: DPDK finds the one of the card */
	void *memory;
	uint64_t memory_len;
	uint64_t page_len;
	uint32_t buffers;
	uint32_t stride;
	uint32_t mtu; /* 0: the device's own */
	uint32_t ring;
	uint32_t queues;
	uint32_t copies;
	uint32_t promiscuous;
	uint32_t check_sums; /* the device says which packets have wrong checksums */
	uint32_t rss;	     /* RSS_* */
	uint32_t is_card;    /* reads and writes memory by itself: has to be shown it */
	uint32_t stays;	     /* must not be closed before the process ends (see `release`) */
	const struct catena_dpdk_rule *rules;
	uint32_t rule_count;
};

#define RSS_ON 1
#define RSS_INNER 2

struct catena_dpdk_slot {
	uint32_t buffer;
	uint32_t offset; /* from the start of the buffer */
	uint32_t len;
	uint32_t flags; /* SLOT_*; of a packet received, its mark in the high half */
};

#define SLOT_BAD_SUM 1
/* Of a packet that was to be sent, and never will be; its buffer is the caller's again. */
#define SLOT_TOO_LONG 2
#define SLOT_REFUSED 4
/* Within the plug-in: it has no packet of DPDK's own now. */
#define SLOT_LATER 8
#define MARK_SHIFT 16

struct catena_dpdk_state {
	uint64_t missed, rx_errors, tx_errors, no_buffer; /* the device counts */
	uint64_t refused, too_long, copied_packets, copied_bytes; /* the plug-in counts */
	uint64_t peer_faults; /* times that its peer had DPDK go where no memory is */
	uint32_t is_up;
	uint32_t is_removed;
	uint32_t queues;
	uint32_t mbits;
	uint32_t empty;	     /* buffers to receive in that it has */
	uint32_t has_fallen; /* nothing passes until it is recalled */
};

struct catena_dpdk {
	uint32_t abi, size;
	const char *(*version)(void);
	const char *(*driver_dir)(void);
	int (*start)(char *why, size_t len);
	void *(*open)(const struct catena_dpdk_device *, char *why, size_t len);
	int (*begin)(void *, char *why, size_t len);
	void (*close)(void *);
	void (*post)(void *, const uint32_t *buffers, uint32_t count);
	uint32_t (*rx)(void *, struct catena_dpdk_slot *, uint32_t count);
	uint32_t (*tx)(void *, struct catena_dpdk_slot *, uint32_t count);
	uint32_t (*reap)(void *, uint32_t *buffers, uint32_t count);
	void (*recall)(void *);
	void (*look)(void *, struct catena_dpdk_state *);
};

/* ---- one device ---- */

struct device {
	uint16_t id;
	bool copies, checks, has_begun, is_shown, stays;
	bool may_fall, has_fallen, is_stopped; /* see `fall` */
	uint16_t rx_queues, tx_queues, rx_next, tx_next;
	struct catena_dpdk_rule *rules;
	uint32_t rule_count, rss;
	uint64_t spreads; /* RTE_ETH_RSS_*: by what it can tell flows apart */
	struct rte_device *bus_device;
	uint8_t *memory;
	uint64_t memory_len;
	uint32_t buffers, stride, log2_stride;
	struct rte_mempool *headers; /* or, of a device that copies, DPDK's own packets */
	struct rte_mbuf **header;    /* by number of the buffer */
	uint32_t known;		     /* headers noted while the pool is made */
	uint32_t *ready, ready_count; /* empty buffers */
	uint32_t *done, done_count;   /* buffers that DPDK has given back */
	pthread_t owner;	      /* whoever called last */
	rte_spinlock_t lock;	      /* of what others give back */
	uint32_t *others, others_count;
	uint64_t refused, too_long, copied_packets, copied_bytes, peer_faults;
};

/* What the mempool library hands us while it makes a pool. */
static struct device *making;

/* ---- DPDK's log: its last lines are the reasons of errors ---- */

static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static char log_text[4096];
static size_t log_len;

static ssize_t log_write(void *cookie, const char *text, size_t len)
{
	(void)cookie;
	size_t take = len < sizeof(log_text) ? len : sizeof(log_text) - 1;
	pthread_mutex_lock(&log_lock);
	if (log_len + take >= sizeof(log_text))
		log_len = 0;
	memcpy(log_text + log_len, text + (len - take), take);
	log_len += take;
	pthread_mutex_unlock(&log_lock);
	return (ssize_t)len;
}

static void log_forget(void)
{
	pthread_mutex_lock(&log_lock);
	log_len = 0;
	pthread_mutex_unlock(&log_lock);
}

/* Says why: the step, the error, and what DPDK logged of it, in one line. */
static void say(char *why, size_t len, const char *step, int error)
{
	size_t at = (size_t)snprintf(why, len, "%s", step);
	if (error != 0 && at < len)
		at += (size_t)snprintf(why + at, len - at, ": %s", rte_strerror(abs(error)));
	pthread_mutex_lock(&log_lock);
	for (size_t i = 0; i < log_len && at + 4 < len; i++) {
		char c = log_text[i];
		if (i == 0)
			at += (size_t)snprintf(why + at, len - at, "; DPDK says: ");
		if (c == '\n') {
			if (i + 1 < log_len && at + 2 < len) {
				why[at++] = ';';
				why[at++] = ' ';
			}
		} else if (at + 1 < len) {
			why[at++] = (c >= 32 && c < 127) ? c : '?';
		}
	}
	pthread_mutex_unlock(&log_lock);
	why[at < len ? at : len - 1] = 0;
}

/* ---- the pool of headers ---- */

static uint32_t *index_of(struct rte_mbuf *m)
{
	return (uint32_t *)((char *)(m + 1) + sizeof(struct rte_mbuf_ext_shared_info));
}

/* Whether that is a header of this device, and of which buffer. */
static inline bool find(struct device *d, struct rte_mbuf *m, uint32_t *index)
{
	uint64_t at = (uint64_t)((uint8_t *)m->buf_addr - d->memory);
	uint64_t i = at >> d->log2_stride;
	*index = (uint32_t)i;
	return i < d->buffers && d->header[i] == m;
}

static int pool_alloc(struct rte_mempool *mp)
{
	mp->pool_data = making;
	return making == NULL ? -EINVAL : 0;
}

static void pool_free(struct rte_mempool *mp)
{
	(void)mp;
}

/* A driver, or a thread of DPDK's, gives headers back. */
static int put(struct rte_mempool *mp, void *const *objects, unsigned int count)
{
	struct device *d = mp->pool_data;
	if (d->known < d->buffers) { /* the pool is being made */
		for (unsigned int i = 0; i < count && d->known < d->buffers; i++)
			d->header[d->known++] = objects[i];
		return 0;
	}
	bool is_owner = pthread_equal(d->owner, pthread_self());
	uint32_t *list = is_owner ? d->done : d->others;
	if (!is_owner)
		rte_spinlock_lock(&d->lock);
	uint32_t n = is_owner ? d->done_count : d->others_count;
	for (unsigned int i = 0; i < count; i++) {
		uint32_t index;
		if (n < d->buffers && find(d, objects[i], &index))
			list[n++] = index;
		else
			d->refused++;
	}
	if (is_owner) {
		d->done_count = n;
	} else {
		__atomic_store_n(&d->others_count, n, __ATOMIC_RELEASE);
		rte_spinlock_unlock(&d->lock);
	}
	return 0;
}

/* A driver takes headers with empty buffers. */
static int get(struct rte_mempool *mp, void **objects, unsigned int count)
{
	struct device *d = mp->pool_data;
	if (d->ready_count < count || !pthread_equal(d->owner, pthread_self()))
		return -ENOBUFS;
	/* The oldest last: what came home just now is warm. */
	for (unsigned int i = 0; i < count; i++)
		objects[i] = d->header[d->ready[--d->ready_count]];
	return 0;
}

static unsigned int pool_count(const struct rte_mempool *mp)
{
	return ((const struct device *)mp->pool_data)->ready_count;
}

static const struct rte_mempool_ops POOL = {
	.name = "catena",
	.alloc = pool_alloc,
	.free = pool_free,
	.enqueue = put,
	.dequeue = get,
	.get_count = pool_count,
};

static void no_free(void *address, void *opaque)
{
	(void)address;
	(void)opaque;
}

static void bind_header(struct device *d, uint32_t index)
{
	struct rte_mbuf *m = d->header[index];
	struct rte_mbuf_ext_shared_info *shared = (void *)(m + 1);
	uint32_t len = d->stride < UINT16_MAX ? d->stride : UINT16_MAX;
	memset(m, 0, sizeof(*m));
	shared->free_cb = no_free;
	shared->fcb_opaque = NULL;
	rte_mbuf_ext_refcnt_set(shared, 1);
	*index_of(m) = index;
	m->priv_size = sizeof(*shared) + 8;
	m->buf_addr = d->memory + (uint64_t)index * d->stride;
	rte_mbuf_iova_set(m, (rte_iova_t)(uintptr_t)m->buf_addr);
	m->buf_len = (uint16_t)len;
	m->shinfo = shared;
	m->ol_flags = RTE_MBUF_F_EXTERNAL;
	m->data_off = RTE_PKTMBUF_HEADROOM;
	m->pool = d->headers;
	m->nb_segs = 1;
	m->port = RTE_MBUF_PORT_INVALID;
	rte_mbuf_refcnt_set(m, 1);
}

static int make_headers(struct device *d, const char *name, int socket)
{
	uint32_t priv = sizeof(struct rte_mbuf_ext_shared_info) + 8;
	struct rte_pktmbuf_pool_private room = {
		.mbuf_data_room_size = d->stride < UINT16_MAX ? (uint16_t)d->stride : UINT16_MAX,
		.mbuf_priv_size = (uint16_t)priv,
		.flags = RTE_PKTMBUF_POOL_F_PINNED_EXT_BUF,
	};
	d->headers = rte_mempool_create_empty(name, d->buffers, sizeof(struct rte_mbuf) + priv, 0,
					      sizeof(room), socket, RTE_MEMPOOL_F_NO_IOVA_CONTIG);
	if (d->headers == NULL)
		return -rte_errno;
	rte_pktmbuf_pool_init(d->headers, &room);
	int error = rte_mempool_set_ops_byname(d->headers, "catena", NULL);
	making = d;
	if (error == 0)
		error = rte_mempool_populate_default(d->headers);
	making = NULL;
	if (error < 0)
		return error;
	if (d->known != d->buffers)
		return -ENOMEM;
	for (uint32_t i = 0; i < d->buffers; i++)
		bind_header(d, i);
	return 0;
}

/* ---- starting DPDK ---- */

static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;
static int started; /* 1: runs, -1: failed */
static char start_why[TEXT];
static pthread_key_t lcore_key;

/* DPDK loads all drivers of its folder when it starts; this tells whether one is there and whole. */
static bool load(const char *library)
{
	char path[512];
	snprintf(path, sizeof(path), "%s/lib%s.so", RTE_EAL_PMD_PATH, library);
	return dlopen(path, RTLD_NOW | RTLD_GLOBAL) != NULL;
}

static void leave_lcore(void *is_in)
{
	(void)is_in;
	rte_thread_unregister();
}

/* Runs in a thread of its own: DPDK pins the thread that starts it, and what that one starts takes
 * no signals that are meant for others. */
static void *start_dpdk(void *nothing)
{
	char lcores[64], vdev[300], ring[300];
	sigset_t all;
	long cpus = sysconf(_SC_NPROCESSORS_CONF);
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	snprintf(lcores, sizeof(lcores), "--lcores=0@(0-%ld)", cpus > 1 ? cpus - 1 : 1);
	if (cpus < 2)
		snprintf(lcores, sizeof(lcores), "--lcores=0@0");
	snprintf(vdev, sizeof(vdev), "%s/librte_bus_vdev.so", RTE_EAL_PMD_PATH);
	snprintf(ring, sizeof(ring), "%s/librte_mempool_ring.so", RTE_EAL_PMD_PATH);
	/* No card is taken that no port names: the list of allowed ones has none that exists. */
	char *args[] = {"catena", lcores, "--no-shconf", "--no-huge", "-m", "256", "--no-telemetry",
			"--iova-mode=va", "--log-level=error", "-a", "ffff:ff:1f.7", "-d", vdev,
			"-d", ring, NULL};
	cookie_io_functions_t io = {.write = log_write};
	FILE *stream = fopencookie(NULL, "w", io);
	if (stream != NULL) {
		setvbuf(stream, NULL, _IOLBF, 1024);
		rte_openlog_stream(stream);
	}
	/* What it has to say of its failure it logs, and also writes to the terminal. */
	FILE *terminal = stderr;
	if (stream != NULL)
		stderr = stream;
	int result = rte_eal_init(sizeof(args) / sizeof(args[0]) - 1, args);
	stderr = terminal;
	if (result >= 0 && rte_mempool_register_ops(&POOL) < 0)
		result = -ENOSPC;
	if (result < 0) {
		say(start_why, sizeof(start_why), "DPDK does not start", rte_errno);
		started = -1;
	} else {
		pthread_key_create(&lcore_key, leave_lcore);
		started = 1;
	}
	return nothing;
}

static int start(char *why, size_t len)
{
	pthread_t thread;
	pthread_mutex_lock(&start_lock);
	if (started == 0) {
		log_forget();
		int error = pthread_create(&thread, NULL, start_dpdk, NULL);
		if (error == 0)
			pthread_join(thread, NULL);
		else
			say(why, len, "there is no thread for DPDK to start in", error);
	}
	if (started < 0)
		snprintf(why, len, "%s", start_why);
	int result = started == 1 ? 0 : -1;
	pthread_mutex_unlock(&start_lock);
	return result;
}

/* A thread that DPDK knows has caches of its pools. */
static void enter(struct device *d)
{
	static __thread bool has_tried;
	if (!has_tried) {
		has_tried = true;
		if (rte_lcore_id() == LCORE_ID_ANY && rte_thread_register() == 0)
			pthread_setspecific(lcore_key, &has_tried);
	}
	d->owner = pthread_self();
}

/* ---- a peer's memory that is not there ---- */

/* DPDK's memif goes where its peer's descriptors say, and unmaps the peer's memory in another thread.
 * A thread that falls there leaves the driver by this way; it holds no lock of it, and buffers that
 * it leaves behind are recalled. */
static __thread sigjmp_buf *volatile way_out;
static struct sigaction usual[2]; /* of SIGSEGV and SIGBUS */

static void on_fault(int number, siginfo_t *info, void *context)
{
	(void)context;
	/* By the kernel; what somebody has sent is not about memory. */
	bool is_sent = info->si_code <= 0;
	if (way_out != NULL && !is_sent)
		siglongjmp(*way_out, 1);
	/* Then it happens again, as if nobody had looked: by itself, or because it is sent again. */
	(void)sigaction(number, &usual[number == SIGBUS], NULL);
	if (is_sent)
		(void)raise(number);
}

/* Under `start_lock`. */
static void watch_faults(void)
{
	static bool is_watching;
	struct sigaction action = {.sa_sigaction = on_fault,
				   .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
	if (is_watching)
		return;
	is_watching = true;
	sigemptyset(&action.sa_mask);
	(void)sigaction(SIGSEGV, &action, &usual[0]);
	(void)sigaction(SIGBUS, &action, &usual[1]);
}

/* The peer is hung up on. Of a link that is down already, DPDK's interrupt thread takes the memory
 * away by itself; two at a time must not. So it is stopped as soon as it was seen up. */
static void fall(struct device *d)
{
	struct rte_eth_link link = {0};
	way_out = NULL;
	d->peer_faults++;
	d->has_fallen = true;
	if (rte_eth_link_get_nowait(d->id, &link) == 0 && link.link_status)
		d->is_stopped = rte_eth_dev_stop(d->id) == 0;
}

static uint16_t rx_burst(struct device *d, uint16_t q, struct rte_mbuf **burst, uint16_t most)
{
	sigjmp_buf out;
	if (!d->may_fall)
		return rte_eth_rx_burst(d->id, q, burst, most);
	if (d->has_fallen)
		return 0;
	if (sigsetjmp(out, 0) != 0) {
		fall(d);
		return 0;
	}
	way_out = &out;
	uint16_t n = rte_eth_rx_burst(d->id, q, burst, most);
	way_out = NULL;
	return n;
}

/* Where it falls, all are taken: nobody knows how many were. */
static uint16_t tx_burst(struct device *d, struct rte_mbuf **burst, uint16_t count)
{
	sigjmp_buf out;
	if (!d->may_fall)
		return rte_eth_tx_burst(d->id, d->tx_next, burst, count);
	if (d->has_fallen)
		return 0;
	if (sigsetjmp(out, 0) != 0) {
		fall(d);
		return count;
	}
	way_out = &out;
	uint16_t n = rte_eth_tx_burst(d->id, d->tx_next, burst, count);
	way_out = NULL;
	return n;
}

/* ---- opening and closing ---- */

/* Memory that cards are shown, and how many of them: the last one takes it away. A card's view of
 * it may be that of all cards (VFIO). Under `start_lock`. */
static struct {
	uint8_t *memory;
	uint32_t users;
} shown[MEMORIES_MAX];

static int show_memory(struct device *d, const struct catena_dpdk_device *asked)
{
	int at = -1;
	for (int i = 0; i < MEMORIES_MAX; i++) {
		if (shown[i].users != 0 && shown[i].memory == d->memory) {
			at = i;
			break;
		}
		if (shown[i].users == 0 && at < 0)
			at = i;
	}
	if (at < 0)
		return -ENOSPC;
	if (shown[at].users == 0 &&
	    rte_extmem_register(d->memory, d->memory_len, NULL, 0, asked->page_len) != 0 &&
	    rte_errno != EEXIST)
		return -rte_errno;
	shown[at].memory = d->memory;
	shown[at].users++;
	d->is_shown = true;
	int error = rte_dev_dma_map(d->bus_device, d->memory, (uint64_t)(uintptr_t)d->memory,
				    d->memory_len);
	return error != 0 && rte_errno != ENOTSUP && rte_errno != EEXIST ? -rte_errno : 0;
}

static void hide_memory(struct device *d)
{
	for (int i = 0; i < MEMORIES_MAX && d->is_shown; i++) {
		if (shown[i].users == 0 || shown[i].memory != d->memory)
			continue;
		d->is_shown = false;
		if (--shown[i].users != 0)
			break;
		(void)rte_dev_dma_unmap(d->bus_device, d->memory,
					(uint64_t)(uintptr_t)d->memory, d->memory_len);
		(void)rte_extmem_unregister(d->memory, d->memory_len);
	}
}

/* By which headers flows are spread, as far as the device can. */
static uint64_t rss_types(uint64_t offered)
{
	return offered & (RTE_ETH_RSS_IP | RTE_ETH_RSS_UDP | RTE_ETH_RSS_TCP | RTE_ETH_RSS_SCTP);
}

/* ---- rules: packets that the device itself tells apart ---- */

/* A rule as DPDK takes it. Of each pair the first says what, the second which bits of it. */
struct flow {
	struct rte_flow_item_eth eth[2];
	struct rte_flow_item_vlan vlan[2];
	struct rte_flow_item_ipv4 ipv4[2];
	struct rte_flow_item_ipv6 ipv6[2];
	/* All three begin with the ports. */
	union {
		struct rte_flow_item_udp udp;
		struct rte_flow_item_tcp tcp;
		struct rte_flow_item_sctp sctp;
		rte_be16_t ports[2];
	} transport[2];
	struct rte_flow_item items[6];
	uint32_t item_count;
	struct rte_flow_action_mark mark;
	struct rte_flow_action_queue queue;
	struct rte_flow_action_rss spread;
	uint16_t queues[QUEUES_MAX];
	struct rte_flow_action actions[3];
	struct rte_flow_attr attr;
};

/* The next header that a packet has to have; `of` is a pair, or nothing where any will do. */
static void expect(struct flow *f, enum rte_flow_item_type type, const void *of, size_t len)
{
	struct rte_flow_item *item = &f->items[f->item_count++];
	item->type = type;
	item->spec = of;
	item->mask = of == NULL ? NULL : (const uint8_t *)of + len;
}

static void expect_ports(struct flow *f, const struct catena_dpdk_rule *rule)
{
	enum rte_flow_item_type type = rule->protocol == 17	 ? RTE_FLOW_ITEM_TYPE_UDP
				       : rule->protocol == 132 ? RTE_FLOW_ITEM_TYPE_SCTP
							       : RTE_FLOW_ITEM_TYPE_TCP;
	const uint32_t asked[2] = {rule->source_port, rule->destination_port};
	bool has_port = false;
	for (int i = 0; i < 2; i++) {
		if (asked[i] == ANY)
			continue;
		f->transport[0].ports[i] = rte_cpu_to_be_16((uint16_t)asked[i]);
		f->transport[1].ports[i] = UINT16_MAX;
		has_port = true;
	}
	expect(f, type, has_port ? f->transport : NULL, sizeof(f->transport[0]));
}

static void expect_headers(struct flow *f, const struct catena_dpdk_rule *rule)
{
	rte_be16_t ether_type = rte_cpu_to_be_16((uint16_t)rule->ether_type);
	bool has_type = rule->ether_type != ANY, has_vlan = rule->vlan != ANY;
	bool has_address = rule->has_source || rule->has_destination;
	if (has_type && !has_vlan) {
		f->eth[0].hdr.ether_type = ether_type;
		f->eth[1].hdr.ether_type = UINT16_MAX;
	}
	expect(f, RTE_FLOW_ITEM_TYPE_ETH, has_type && !has_vlan ? f->eth : NULL, sizeof(f->eth[0]));
	if (has_vlan) {
		f->vlan[0].hdr.vlan_tci = rte_cpu_to_be_16((uint16_t)rule->vlan);
		f->vlan[1].hdr.vlan_tci = rte_cpu_to_be_16(0x0fff);
		if (has_type) {
			f->vlan[0].hdr.eth_proto = ether_type;
			f->vlan[1].hdr.eth_proto = UINT16_MAX;
		}
		expect(f, RTE_FLOW_ITEM_TYPE_VLAN, f->vlan, sizeof(f->vlan[0]));
	}
	if (rule->ip == 4) {
		memcpy(&f->ipv4[0].hdr.src_addr, rule->source, 4);
		memcpy(&f->ipv4[0].hdr.dst_addr, rule->destination, 4);
		memset(&f->ipv4[1].hdr.src_addr, rule->has_source ? 0xff : 0, 4);
		memset(&f->ipv4[1].hdr.dst_addr, rule->has_destination ? 0xff : 0, 4);
		expect(f, RTE_FLOW_ITEM_TYPE_IPV4, has_address ? f->ipv4 : NULL, sizeof(f->ipv4[0]));
	} else if (rule->ip == 6) {
		memcpy(&f->ipv6[0].hdr.src_addr, rule->source, 16);
		memcpy(&f->ipv6[0].hdr.dst_addr, rule->destination, 16);
		memset(&f->ipv6[1].hdr.src_addr, rule->has_source ? 0xff : 0, 16);
		memset(&f->ipv6[1].hdr.dst_addr, rule->has_destination ? 0xff : 0, 16);
		expect(f, RTE_FLOW_ITEM_TYPE_IPV6, has_address ? f->ipv6 : NULL, sizeof(f->ipv6[0]));
	}
	if (rule->protocol != 0)
		expect_ports(f, rule);
	expect(f, RTE_FLOW_ITEM_TYPE_END, NULL, 0);
}

/* Packets without a queue of their own are spread, or come by the only one. */
static void act(struct flow *f, const struct device *d, const struct catena_dpdk_rule *rule)
{
	struct rte_flow_action *next = f->actions;
	if (rule->mark != 0) {
		f->mark.id = rule->mark;
		*next++ = (struct rte_flow_action){RTE_FLOW_ACTION_TYPE_MARK, &f->mark};
	}
	if (rule->queue != ANY || d->rx_queues == 1) {
		f->queue.index = rule->queue == ANY ? 0 : (uint16_t)rule->queue;
		*next++ = (struct rte_flow_action){RTE_FLOW_ACTION_TYPE_QUEUE, &f->queue};
	} else {
		for (uint16_t q = 0; q < d->rx_queues; q++)
			f->queues[q] = q;
		f->spread.types = rss_types(d->spreads);
		f->spread.level = d->rss & RSS_INNER ? 2 : 0;
		f->spread.queue = f->queues;
		f->spread.queue_num = d->rx_queues;
		*next++ = (struct rte_flow_action){RTE_FLOW_ACTION_TYPE_RSS, &f->spread};
	}
	next->type = RTE_FLOW_ACTION_TYPE_END;
	f->attr.ingress = 1;
	f->attr.priority = rule->priority;
}

/* Asks the device whether it can do all rules, or has it do them. They end with the device. */
static int apply_rules(struct device *d, bool is_question, char *why, size_t len)
{
	for (uint32_t i = 0; i < d->rule_count; i++) {
		struct flow f = {0};
		struct rte_flow_error error = {0};
		int result = 0;
		bool is_spread = d->rules[i].queue == ANY && d->rx_queues > 1;
		if (is_spread && rss_types(d->spreads) == 0) {
			snprintf(why, len, "does not spread flows over queues: write `queue` in rule "
				 "%u of `flows`", i + 1);
			return -1;
		}
		expect_headers(&f, &d->rules[i]);
		act(&f, d, &d->rules[i]);
		if (is_question)
			result = rte_flow_validate(d->id, &f.attr, f.items, f.actions, &error);
		else if (rte_flow_create(d->id, &f.attr, f.items, f.actions, &error) == NULL)
			result = rte_errno == 0 ? -EINVAL : -rte_errno;
		if (result == -ENOSYS)
			snprintf(why, len, "tells no packets apart (rte_flow): leave out `flows`");
		else if (result != 0)
			snprintf(why, len, "refuses rule %u of `flows` (%s): change it or leave it out",
				 i + 1, error.message != NULL ? error.message : rte_strerror(-result));
		if (result != 0)
			return -1;
	}
	return 0;
}

static int set_up(struct device *d, const struct catena_dpdk_device *asked, char *why, size_t len)
{
	struct rte_eth_dev_info info;
	struct rte_eth_conf conf = {0};
	char name[RTE_MEMPOOL_NAMESIZE];
	int socket = rte_eth_dev_socket_id(d->id) < 0 ? 0 : rte_eth_dev_socket_id(d->id);
	int error = rte_eth_dev_info_get(d->id, &info);
	if (error != 0)
		return say(why, len, "cannot be asked what it is", error), -1;
	d->spreads = info.flow_type_rss_offloads;
	uint32_t most = RTE_MIN(info.max_rx_queues, info.max_tx_queues);
	if (asked->queues > most) {
		snprintf(why, len, "has %u queues at most: write `queues: %u`", most, most);
		return -1;
	}
	/* memif says that it takes 1518 bytes (22.11), and chains as many of its buffers as a packet
	 * needs. */
	uint32_t mtu = strcmp(asked->driver, "net_memif") == 0 ? 0 : asked->mtu;
	uint32_t mtu_max = info.max_mtu, longest = info.max_rx_pktlen;
	if (longest >= FRAME_EXTRA && longest - FRAME_EXTRA < mtu_max)
		mtu_max = longest - FRAME_EXTRA;
	if (mtu > mtu_max) {
		snprintf(why, len, "takes an MTU of %u at most: write `mtu: %u`", mtu_max, mtu_max);
		return -1;
	}
	d->checks = asked->check_sums != 0;
	if (d->checks) {
		conf.rxmode.offloads = info.rx_offload_capa & RTE_ETH_RX_OFFLOAD_CHECKSUM;
		if (conf.rxmode.offloads == 0) {
			snprintf(why, len, "checks no checksums: leave out `check_sums`");
			return -1;
		}
	}
	if (asked->rss != 0) {
		conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
		conf.rx_adv_conf.rss_conf.rss_hf = rss_types(d->spreads);
		if (asked->rss & RSS_INNER)
			conf.rx_adv_conf.rss_conf.rss_hf |= RTE_ETH_RSS_LEVEL_INNERMOST;
		if (rss_types(d->spreads) == 0) {
			snprintf(why, len, "does not spread flows over queues: leave out `rss`");
			return -1;
		}
		if ((asked->rss & RSS_INNER) && !(d->spreads & RTE_ETH_RSS_LEVEL_INNERMOST)) {
			snprintf(why, len, "knows no headers inside tunnels: write `rss: outer`");
			return -1;
		}
	}
	if (d->rule_count > 0) {
		/* A device that is not asked may leave marks out; one that has none refuses the rules. */
		uint64_t features = RTE_ETH_RX_METADATA_USER_MARK;
		(void)rte_eth_rx_metadata_negotiate(d->id, &features);
	}
	conf.rxmode.mtu = mtu;
	d->rx_queues = d->tx_queues = (uint16_t)asked->queues;
	error = rte_eth_dev_configure(d->id, d->rx_queues, d->tx_queues, &conf);
	if (error != 0)
		return say(why, len, "refuses its set-up", error), -1;
	uint16_t rx_ring = (uint16_t)asked->ring, tx_ring = (uint16_t)asked->ring;
	error = rte_eth_dev_adjust_nb_rx_tx_desc(d->id, &rx_ring, &tx_ring);
	if (error != 0)
		return say(why, len, "refuses the size of its rings", error), -1;
	if (asked->is_card && !d->copies && rx_ring > asked->ring) {
		/* It starts once it has buffers for the rings that were asked for. */
		snprintf(why, len, "has rings of %u entries at least: write `ring: %u`", rx_ring,
			 rx_ring);
		return -1;
	}
	snprintf(name, sizeof(name), "catena%u", d->id);
	if (d->copies) {
		uint32_t room = RTE_MAX(asked->mtu + 64, 2048u) + RTE_PKTMBUF_HEADROOM;
		uint32_t count = OWN_PACKETS + d->rx_queues * (rx_ring + 2u * tx_ring);
		d->headers = rte_pktmbuf_pool_create(name, count, 256, 0,
						     (uint16_t)RTE_MIN(room, 65535u), socket);
		error = d->headers == NULL ? -rte_errno : 0;
	} else {
		error = asked->is_card ? show_memory(d, asked) : 0;
		if (error == 0)
			error = make_headers(d, name, socket);
	}
	if (error != 0)
		return say(why, len, "its memory cannot be made known to DPDK", error), -1;
	for (uint16_t q = 0; q < d->rx_queues && error == 0; q++) {
		error = rte_eth_rx_queue_setup(d->id, q, rx_ring, (unsigned int)socket, NULL,
					       d->headers);
		if (error == 0)
			error = rte_eth_tx_queue_setup(d->id, q, tx_ring, (unsigned int)socket,
						       NULL);
	}
	if (error != 0)
		return say(why, len, "refuses its queues", error), -1;
	if (asked->promiscuous)
		(void)rte_eth_promiscuous_enable(d->id);
	return apply_rules(d, true, why, len);
}

static void release(struct device *d)
{
	struct rte_device *bus_device = d->bus_device;
	enter(d);
	/* Closing a listening memif frees what DPDK's interrupt thread goes on looking at (22.11,
	 * memif_socket_remove_device), which ends the process. Stopped, it has no packets either. */
	if (d->has_begun && d->rule_count > 0)
		(void)rte_flow_flush(d->id, NULL);
	if (d->has_begun)
		(void)rte_eth_dev_stop(d->id);
	if (d->has_begun && d->stays)
		return;
	if (bus_device != NULL) {
		hide_memory(d);
		(void)rte_eth_dev_close(d->id);
		(void)rte_dev_remove(bus_device);
	}
	if (d->headers != NULL)
		rte_mempool_free(d->headers);
	free(d->rules);
	free(d->header);
	free(d->ready);
	free(d->done);
	free(d->others);
	free(d);
}

/* The device that these arguments have just brought. */
static int find_device(struct device *d, const char *args)
{
	struct rte_dev_iterator it;
	uint16_t id = RTE_MAX_ETHPORTS;
	char name[RTE_ETH_NAME_MAX_LEN];
	snprintf(name, sizeof(name), "%s", args);
	name[strcspn(name, ",")] = 0;
	if (rte_eth_dev_get_port_by_name(name, &id) != 0) {
		RTE_ETH_FOREACH_MATCHING_DEV(id, args, &it) {
			rte_eth_iterator_cleanup(&it);
			break;
		}
	}
	if (id >= RTE_MAX_ETHPORTS)
		return -ENODEV;
	struct rte_eth_dev_info info;
	int error = rte_eth_dev_info_get(id, &info);
	if (error != 0)
		return error;
	d->id = id;
	d->bus_device = info.device;
	return 0;
}

/* Takes away what was probed and brought no device of packets. */
static void unprobe(const char *args)
{
	struct rte_devargs found = {0};
	if (rte_devargs_parse(&found, args) != 0)
		return;
	if (found.bus != NULL)
		(void)rte_eal_hotplug_remove(rte_bus_name(found.bus), found.name);
	rte_devargs_reset(&found);
}

static void *open_device(const struct catena_dpdk_device *asked, char *why, size_t len)
{
	char library[128];
	bool has_driver = true;
	if (asked->queues == 0 || asked->queues > QUEUES_MAX || asked->stride == 0 ||
	    (asked->stride & (asked->stride - 1)) != 0) {
		snprintf(why, len, "%u queues and buffers of %u bytes are nothing for DPDK",
			 asked->queues, asked->stride);
		return NULL;
	}
	if (start(why, len) != 0)
		return NULL;
	struct device *d = calloc(1, sizeof(*d));
	if (d == NULL) {
		snprintf(why, len, "there is no memory for it");
		return NULL;
	}
	d->memory = asked->memory;
	d->memory_len = asked->memory_len;
	d->buffers = asked->buffers;
	d->stride = asked->stride;
	d->log2_stride = (uint32_t)__builtin_ctz(asked->stride);
	d->copies = asked->copies != 0;
	d->stays = asked->stays != 0;
	/* Its packets lie in no lists or locks of DPDK's that it could leave in a mess. */
	d->may_fall = strcmp(asked->driver, "net_memif") == 0 && !d->copies;
	rte_spinlock_init(&d->lock);
	d->header = calloc(d->buffers, sizeof(*d->header));
	d->ready = calloc(d->buffers, sizeof(uint32_t));
	d->done = calloc(d->buffers, sizeof(uint32_t));
	d->others = calloc(d->buffers, sizeof(uint32_t));
	d->rule_count = asked->rule_count;
	d->rss = asked->rss;
	d->rules = calloc(d->rule_count + 1, sizeof(*d->rules));
	if (d->rules != NULL && d->rule_count > 0)
		memcpy(d->rules, asked->rules, d->rule_count * sizeof(*d->rules));
	if (!d->header || !d->ready || !d->done || !d->others || !d->rules) {
		snprintf(why, len, "there is no memory for its tables");
		release(d);
		return NULL;
	}
	pthread_mutex_lock(&start_lock);
	log_forget();
	enter(d);
	if (d->may_fall)
		watch_faults();
	if (asked->driver[0] != 0) {
		snprintf(library, sizeof(library), "rte_%s", asked->driver);
		has_driver = load(library);
	}
	int error = has_driver ? rte_dev_probe(asked->args) : -ENOENT;
	if (error == 0) {
		error = find_device(d, asked->args);
		if (error != 0)
			unprobe(asked->args);
	}
	if (!has_driver)
		snprintf(why, len, "this DPDK has no driver %s in %s: `catena port list` lists those "
			 "it has", asked->driver, RTE_EAL_PMD_PATH);
	else if (error != 0)
		say(why, len,
		    asked->is_card ? "DPDK does not open it (`dpdk-devbind.py --status` lists cards and "
				     "their drivers)"
				   : "DPDK does not open it (are the arguments in `device` right?)",
		    error);
	else
		error = set_up(d, asked, why, len);
	if (error != 0) {
		release(d);
		d = NULL;
	}
	pthread_mutex_unlock(&start_lock);
	return d;
}

static int begin(void *device, char *why, size_t len)
{
	struct device *d = device;
	pthread_mutex_lock(&start_lock);
	log_forget();
	enter(d);
	int error = rte_eth_dev_start(d->id);
	d->has_begun = error == 0;
	if (error != 0)
		say(why, len, "cannot be started", error);
	else
		error = apply_rules(d, false, why, len);
	pthread_mutex_unlock(&start_lock);
	return error;
}

static void close_device(void *device)
{
	pthread_mutex_lock(&start_lock);
	release(device);
	pthread_mutex_unlock(&start_lock);
}

/* ---- packets ---- */

static void post(void *device, const uint32_t *buffers, uint32_t count)
{
	struct device *d = device;
	for (uint32_t i = 0; i < count && d->ready_count < d->buffers; i++)
		if (buffers[i] < d->buffers)
			d->ready[d->ready_count++] = buffers[i];
}

/* Copies a packet, of one piece or several, into an empty buffer. */
static bool gather(struct device *d, struct rte_mbuf *m, struct catena_dpdk_slot *slot)
{
	uint32_t len = m->pkt_len, at = RTE_PKTMBUF_HEADROOM;
	if (d->ready_count == 0)
		return false;
	if (len > d->stride - RTE_PKTMBUF_HEADROOM) {
		d->too_long++;
		return false;
	}
	uint32_t buffer = d->ready[--d->ready_count];
	uint8_t *to = d->memory + (uint64_t)buffer * d->stride;
	const struct rte_mbuf *piece = m;
	for (; piece != NULL && piece->data_len <= d->stride - at; piece = piece->next) {
		memcpy(to + at, rte_pktmbuf_mtod(piece, void *), piece->data_len);
		at += piece->data_len;
	}
	d->copied_packets++;
	d->copied_bytes += len;
	slot->buffer = buffer;
	slot->offset = RTE_PKTMBUF_HEADROOM;
	slot->len = at - RTE_PKTMBUF_HEADROOM;
	return true;
}

static inline bool bad_sum(const struct rte_mbuf *m)
{
	return (m->ol_flags & RTE_MBUF_F_RX_IP_CKSUM_MASK) == RTE_MBUF_F_RX_IP_CKSUM_BAD ||
	       (m->ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK) == RTE_MBUF_F_RX_L4_CKSUM_BAD;
}

/* What a rule has the device say of the packet, where the flags of its slot have it. */
static inline uint32_t mark_of(const struct rte_mbuf *m)
{
	return m->ol_flags & RTE_MBUF_F_RX_FDIR_ID ? m->hash.fdir.hi << MARK_SHIFT : 0;
}

static uint32_t rx_queue(struct device *d, uint16_t q, struct catena_dpdk_slot *slots, uint32_t count)
{
	struct rte_mbuf *burst[BURST];
	uint32_t most = RTE_MIN(count, (uint32_t)BURST), filled = 0;
	/* Software devices take buffers as packets come, some of them for all that they are asked for
	 * or for none. A card has its own. */
	if (!d->is_shown)
		most = RTE_MIN(most, d->ready_count);
	uint16_t n = rx_burst(d, q, burst, (uint16_t)most);
	for (uint16_t i = 0; i < n; i++) {
		struct rte_mbuf *m = burst[i];
		struct catena_dpdk_slot *slot = &slots[filled];
		uint32_t buffer;
		slot->flags = d->checks && bad_sum(m) ? SLOT_BAD_SUM : 0;
		if (d->rule_count > 0)
			slot->flags |= mark_of(m);
		if (!d->copies && m->nb_segs == 1 && m->next == NULL && find(d, m, &buffer)) {
			slot->buffer = buffer;
			slot->offset = m->data_off;
			slot->len = m->data_len;
			filled++;
			continue;
		}
		if (gather(d, m, slot))
			filled++;
		else
			d->refused++;
		rte_pktmbuf_free(m);
	}
	return filled;
}

static uint32_t rx(void *device, struct catena_dpdk_slot *slots, uint32_t count)
{
	struct device *d = device;
	enter(d);
	uint32_t filled = 0;
	for (uint16_t i = 0; i < d->rx_queues && filled < count; i++) {
		filled += rx_queue(d, d->rx_next, slots + filled, count - filled);
		if (++d->rx_next >= d->rx_queues)
			d->rx_next = 0;
	}
	return filled;
}

/* Makes a packet of DPDK's of it. 0, or why that cannot be: SLOT_*. */
static uint32_t to_send(struct device *d, const struct catena_dpdk_slot *slot, struct rte_mbuf **to)
{
	struct rte_mbuf *m;
	if (slot->buffer >= d->buffers || slot->offset > d->stride ||
	    slot->len > d->stride - slot->offset)
		return SLOT_REFUSED;
	if (slot->len > UINT16_MAX)
		return SLOT_TOO_LONG;
	if (d->copies) {
		m = rte_pktmbuf_alloc(d->headers);
		if (m == NULL)
			return SLOT_LATER;
		if (slot->len > rte_pktmbuf_tailroom(m)) {
			rte_pktmbuf_free(m);
			return SLOT_TOO_LONG;
		}
		memcpy(rte_pktmbuf_mtod(m, void *),
		       d->memory + (uint64_t)slot->buffer * d->stride + slot->offset, slot->len);
		d->copied_packets++;
		d->copied_bytes += slot->len;
	} else {
		m = d->header[slot->buffer];
		m->data_off = (uint16_t)slot->offset;
		m->ol_flags = RTE_MBUF_F_EXTERNAL;
		m->next = NULL;
		m->nb_segs = 1;
	}
	m->data_len = (uint16_t)slot->len;
	m->pkt_len = slot->len;
	*to = m;
	return 0;
}

/* How many of them are dealt with, the first ones: those whose flags say so will not be sent, the
 * others DPDK has taken. Those it copied come back by `reap` at once. */
static uint32_t tx(void *device, struct catena_dpdk_slot *slots, uint32_t count)
{
	struct device *d = device;
	struct rte_mbuf *burst[BURST];
	uint32_t sent = 0;
	enter(d);
	while (sent < count) {
		uint32_t not_sent = 0;
		uint16_t n = 0, taken = 0;
		while (n < BURST && sent + n < count &&
		       (not_sent = to_send(d, &slots[sent + n], &burst[n])) == 0)
			n++;
		if (n > 0)
			taken = tx_burst(d, burst, n);
		for (uint16_t i = taken; i < n && d->copies; i++)
			rte_pktmbuf_free(burst[i]);
		for (uint16_t i = 0; i < taken && d->copies; i++)
			if (d->done_count < d->buffers)
				d->done[d->done_count++] = slots[sent + i].buffer;
		sent += taken;
		if (taken < n || not_sent == SLOT_LATER)
			break;
		if (not_sent != 0)
			slots[sent++].flags = not_sent;
	}
	if (++d->tx_next >= d->tx_queues)
		d->tx_next = 0;
	return sent;
}

/* Buffers that DPDK is done with: sent, or not needed to receive in. */
static uint32_t reap(void *device, uint32_t *buffers, uint32_t count)
{
	struct device *d = device;
	enter(d);
	if (__atomic_load_n(&d->others_count, __ATOMIC_ACQUIRE) != 0) {
		rte_spinlock_lock(&d->lock);
		while (d->others_count > 0 && d->done_count < d->buffers)
			d->done[d->done_count++] = d->others[--d->others_count];
		rte_spinlock_unlock(&d->lock);
	}
	uint32_t n = RTE_MIN(count, d->done_count);
	d->done_count -= n;
	memcpy(buffers, d->done + d->done_count, n * sizeof(*buffers));
	return n;
}

/* Afterwards it has no buffer any more, as if it were new. A software device keeps none between two
 * calls, unless it has lost it: DPDK 22.11 forgets the pieces of a memif's packet that has no end. */
static void recall(void *device)
{
	struct device *d = device;
	enter(d);
	if (d->is_stopped)
		(void)rte_eth_dev_start(d->id);
	d->has_fallen = d->is_stopped = false;
	rte_spinlock_lock(&d->lock);
	d->others_count = 0;
	rte_spinlock_unlock(&d->lock);
	d->ready_count = d->done_count = 0;
	for (uint32_t i = 0; i < d->buffers && !d->copies; i++)
		bind_header(d, i);
}

static void look(void *device, struct catena_dpdk_state *state)
{
	struct device *d = device;
	struct rte_eth_link link = {0};
	struct rte_eth_stats stats = {0};
	enter(d);
	state->is_up = !d->has_fallen && rte_eth_link_get_nowait(d->id, &link) == 0 &&
		       link.link_status;
	state->has_fallen = d->has_fallen;
	state->peer_faults = d->peer_faults;
	state->mbits = link.link_speed;
	state->is_removed = rte_eth_dev_is_removed(d->id) == 1;
	state->queues = d->rx_queues;
	for (uint16_t q = 0; q < d->tx_queues && d->has_begun && !d->copies; q++)
		(void)rte_eth_tx_done_cleanup(d->id, q, 0);
	if (rte_eth_stats_get(d->id, &stats) == 0) {
		state->missed = stats.imissed;
		state->rx_errors = stats.ierrors;
		state->tx_errors = stats.oerrors;
		state->no_buffer = stats.rx_nombuf;
	}
	state->refused = d->refused;
	state->too_long = d->too_long;
	state->copied_packets = d->copied_packets;
	state->copied_bytes = d->copied_bytes;
	/* Given back by others, a buffer is no less there than one that waits. */
	state->empty = d->ready_count + d->done_count +
		       __atomic_load_n(&d->others_count, __ATOMIC_ACQUIRE);
}

static const char *driver_dir(void)
{
	return RTE_EAL_PMD_PATH;
}

__attribute__((visibility("default"))) const struct catena_dpdk catena_dpdk = {
	.abi = CATENA_DPDK_ABI,
	.size = sizeof(struct catena_dpdk),
	.version = rte_version,
	.driver_dir = driver_dir,
	.start = start,
	.open = open_device,
	.begin = begin,
	.close = close_device,
	.post = post,
	.rx = rx,
	.tx = tx,
	.reap = reap,
	.recall = recall,
	.look = look,
};

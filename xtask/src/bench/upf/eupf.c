/*
 * eUPF's XDP program on its own: how long it takes for a packet, by the kernel's test run.
 *
 * SPDX-License-Identifier: Apache-2.0
 *
 * `eupf OBJECT plain|metered|filtered SLICES MILLIS`, in a network namespace whose routes take
 * packets to 10.3.0.1 and 10.45.0.2 elsewhere. Prints the ns of a packet, and those of a program
 * that does nothing: the fastest of so many slices of so many ms.
 *
 * A test run does not lay out the packet anew for each turn. So there is one session whose user
 * sends to itself: an uplink packet loses its tunnel, and what is left is a downlink packet to the
 * same session, whose tunnel leads back to the UPF. Uplink and downlink are in turn, half each.
 *
 * Whatever is not forwarded, or not counted by the URR, is a fault and no figure.
 */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEID = 7, FAR_UP = 1, FAR_DOWN = 2, QER = 1, URR = 1, UNUSED = 0 };
enum { USER_BYTES = 64, TUNNEL_BYTES = 20 + 8 + 16 };
/* More than 1 Gb/s: the program works out the time of a packet, which is none. */
#define MBR_BPS 4000000000u

/* Values of eUPF's maps, as its program lays them out. */
struct subnet {
	uint8_t type;
	unsigned __int128 ip, mask;
};
struct ports {
	uint16_t least, most;
};
struct filter {
	uint8_t protocol;
	struct subnet source;
	struct ports source_ports;
	struct subnet destination;
	struct ports destination_ports;
};
struct pdr {
	uint32_t far_id, qer_id, urr_ids[2];
	uint8_t removal, filters;
	struct {
		struct filter filter;
		uint8_t removal;
		uint32_t far_id, qer_id, urr_ids[2];
	} filtered;
};
struct far {
	uint8_t action, creation;
	uint32_t teid, remote;
	uint16_t marking;
};
struct qer {
	uint8_t gates[2], qfi;
	uint32_t mbr_bps[2];
	uint64_t starts[2];
};
struct urr {
	uint64_t bytes[2];
};
/* Of one processor. */
struct counters {
	uint64_t received[12], directions[4], actions[8];
};

static struct bpf_object *object;

static void fail(const char *what)
{
	fprintf(stderr, "eUPF: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int map_of(const char *name, size_t value)
{
	struct bpf_map *map = bpf_object__find_map_by_name(object, name);
	if (!map || bpf_map__value_size(map) != value) {
		fprintf(stderr, "eUPF: %s is not as it was: another version\n", name);
		exit(1);
	}
	return bpf_map__fd(map);
}

static void put(const char *name, uint32_t key, const void *value, size_t bytes)
{
	if (bpf_map_update_elem(map_of(name, bytes), &key, value, BPF_ANY))
		fail(name);
}

static int load(const char *path, uint32_t n3)
{
	object = bpf_object__open_file(path, NULL);
	if (!object)
		fail(path);
	struct bpf_map *map;
	bpf_object__for_each_map(map, object) {
		bpf_map__set_pin_path(map, NULL);
		/* Its only global: the addresses of N3 and N9. */
		size_t bytes = 0;
		uint32_t *addresses = (uint32_t *)bpf_map__initial_value(map, &bytes);
		if (addresses && bytes == 8)
			addresses[0] = n3;
	}
	struct bpf_program *program;
	program = bpf_object__find_program_by_name(object, "upf_ip_entrypoint_func");
	if (!program)
		fail("upf_ip_entrypoint_func");
	bpf_program__set_type(program, BPF_PROG_TYPE_XDP);
	if (bpf_object__load(object))
		fail("the program is not loaded");
	return bpf_program__fd(program);
}

static int load_nothing(void)
{
	struct bpf_insn code[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .imm = XDP_PASS},
		{.code = BPF_JMP | BPF_EXIT},
	};
	int program = bpf_prog_load(BPF_PROG_TYPE_XDP, "nothing", "GPL", code, 2, NULL);
	if (program < 0)
		fail("a program that does nothing is not loaded");
	return program;
}

static struct filter udp_between(uint32_t source, uint32_t destination)
{
	struct filter filter = {.protocol = 3};
	filter.source = (struct subnet){1, ntohl(source), 0xffffffff};
	filter.destination = (struct subnet){1, ntohl(destination), 0xffffffff};
	filter.source_ports = filter.destination_ports = (struct ports){1000, 50000};
	return filter;
}

static void establish(const char *rules, uint32_t n3, uint32_t ue)
{
	bool plain = !strcmp(rules, "plain"), filtered = !strcmp(rules, "filtered");
	for (int down = 0; down < 2; down++) {
		struct pdr pdr = {.qer_id = QER, .urr_ids = {URR, UNUSED}};
		pdr.far_id = down ? FAR_DOWN : FAR_UP;
		/* Nothing but what fits passes. */
		pdr.filters = filtered;
		pdr.filtered.filter = udp_between(ue, ue);
		pdr.filtered.far_id = pdr.far_id;
		pdr.filtered.qer_id = QER;
		struct far far = {.action = 2};
		if (down)
			far = (struct far){.action = 2, .creation = 1, .teid = TEID, .remote = n3};
		put("far_map", pdr.far_id, &far, sizeof(far));
		const char *map = down ? "pdr_map_downlink_ip4" : "pdr_map_teid_ip4";
		put(map, down ? ue : TEID, &pdr, sizeof(pdr));
	}
	/* Gates are open, and no rate is no limit. */
	struct qer qer = {.qfi = 9};
	if (!plain)
		qer.mbr_bps[0] = qer.mbr_bps[1] = MBR_BPS;
	put("qer_map", QER, &qer, sizeof(qer));
	struct urr urr = {0};
	put("urr_map", URR, &urr, sizeof(urr));
}

static uint16_t checksum(const uint8_t *bytes, size_t count)
{
	uint32_t sum = 0;
	for (size_t at = 0; at < count; at += 2)
		sum += bytes[at] << 8 | bytes[at + 1];
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return htons(~sum & 0xffff);
}

/* IPv4 and UDP, of so many bytes. */
static void datagram(uint8_t *at, uint16_t bytes, uint32_t from, uint32_t to, uint16_t port)
{
	uint16_t length = htons(bytes), rest = htons(bytes - 20), number = htons(port);
	memcpy(at, (uint8_t[]){0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17}, 10);
	memcpy(at + 2, &length, 2);
	memcpy(at + 12, &from, 4);
	memcpy(at + 16, &to, 4);
	uint16_t sum = checksum(at, 20);
	memcpy(at + 10, &sum, 2);
	memcpy(at + 20, &number, 2);
	memcpy(at + 22, &number, 2);
	memcpy(at + 24, &rest, 2);
}

static size_t uplink(uint8_t *frame, uint32_t n3, uint32_t ue)
{
	uint8_t *tunnel = frame + ETH_HLEN, *user = tunnel + TUNNEL_BYTES;
	frame[12] = 8;
	datagram(tunnel, TUNNEL_BYTES + USER_BYTES, n3, n3, 2152);
	const uint8_t gtpu[16] = {0x34, 0xff, 0, 8 + USER_BYTES, 0, 0, 0, TEID,
				  0,	0,    0, 0x85, 1, 0x10, 9, 0};
	memcpy(tunnel + 28, gtpu, sizeof(gtpu));
	datagram(user, USER_BYTES, ue, ue, 4000);
	return ETH_HLEN + TUNNEL_BYTES + USER_BYTES;
}

/* The ns of a turn. */
static double run(int program, const uint8_t *frame, size_t bytes, uint32_t turns)
{
	uint8_t out[256];
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = frame, .data_size_in = bytes,
		    .data_out = out, .data_size_out = sizeof(out), .repeat = turns);
	if (bpf_prog_test_run_opts(program, &opts))
		fail("test run");
	return opts.duration;
}

static double fastest(int program, const uint8_t *frame, size_t bytes, int slices, uint32_t turns)
{
	double least = 0;
	for (int slice = 0; slice < slices; slice++) {
		double ns = run(program, frame, bytes, turns);
		if (!slice || ns < least)
			least = ns;
	}
	return least;
}

/* Of all processors. */
static uint64_t redirected(void)
{
	int count = libbpf_num_possible_cpus();
	struct counters *each = calloc(count, sizeof(*each));
	uint32_t key = 0;
	uint64_t sum = 0;
	if (!each || bpf_map_lookup_elem(map_of("upf_ext_stat", sizeof(*each)), &key, each))
		fail("upf_ext_stat");
	for (int at = 0; at < count; at++)
		sum += each[at].actions[XDP_REDIRECT];
	free(each);
	return sum;
}

static void check(uint64_t packets)
{
	struct urr urr;
	uint32_t key = URR;
	if (bpf_map_lookup_elem(map_of("urr_map", sizeof(urr)), &key, &urr))
		fail("urr_map");
	uint64_t user = packets / 2 * (ETH_HLEN + USER_BYTES);
	bool is_counted = urr.bytes[0] == user + packets / 2 * TUNNEL_BYTES && urr.bytes[1] == user;
	if (redirected() == packets && is_counted)
		return;
	fprintf(stderr, "eUPF: %lu of %lu packets are forwarded, %lu and %lu bytes counted\n",
		redirected(), packets, urr.bytes[0], urr.bytes[1]);
	exit(1);
}

int main(int count, char **arguments)
{
	if (count != 5)
		return 2;
	int slices = atoi(arguments[3]), millis = atoi(arguments[4]);
	uint32_t n3 = inet_addr("10.3.0.1"), ue = inet_addr("10.45.0.2");
	uint8_t frame[256] = {0};
	size_t bytes = uplink(frame, n3, ue);
	int program = load(arguments[1], n3);
	establish(arguments[2], n3, ue);
	/* Enough to know how many turns last that long; always as many up as down. */
	uint32_t first = 2000;
	double about = run(program, frame, bytes, first);
	uint32_t turns = (uint32_t)(millis * 1e6 / (about < 1 ? 1 : about)) / 2 * 2 + 2;
	double own = fastest(program, frame, bytes, slices, turns);
	check(first + (uint64_t)slices * turns);
	printf("%.1f %.1f\n", own, fastest(load_nothing(), frame, bytes, slices, turns));
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * DPDK's rte_hash on the workloads of flow.rs, for comparison. Argument: number of flows; ms per
 * measurement. Prints one line per workload: its name and keys per second.
 *
 * Keys are those of flow.rs: 16 bytes made from a flow's number. A figure is the fastest of eight
 * slices, as there. Where the machine has no huge pages, neither side uses them.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_hash.h>
#include <rte_hash_crc.h>

#define BURST 64
#define BURSTS 16
#define SLICES 8

struct key {
	uint64_t words[2];
};

static uint64_t state = 0x9e3779b97f4a7c15;

static inline uint64_t random_word(void)
{
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return state * 0x2545f4914f6cdd1d;
}

static inline uint64_t below(uint64_t limit)
{
	return (uint64_t)(((unsigned __int128)random_word() * limit) >> 64);
}

static inline struct key key_of(uint64_t flow)
{
	uint64_t z = flow * 0x9e3779b97f4a7c15;
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	return (struct key){ { z ^ (z >> 27), flow } };
}

static double now_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

static struct rte_hash *table;
static struct key keys[BURSTS][BURST];
static uint64_t flows, oldest, next_flow, strangers = 1ull << 40, checksum;
static double owed;

enum work { HIT, MISS, CHURN_1, CHURN_10, ATTACK };

/* Lays out the keys of a block of bursts; in churn, new flows stand among them. */
static uint32_t fresh[BURSTS];

static void prepare(enum work work)
{
	for (int b = 0; b < BURSTS; b++) {
		fresh[b] = 0;
		if (work == CHURN_1 || work == CHURN_10) {
			owed += BURST * (work == CHURN_1 ? 0.01 : 0.1);
			fresh[b] = (uint32_t)owed;
			owed -= fresh[b];
		}
	}
	uint64_t first = next_flow;
	for (int b = 0; b < BURSTS; b++)
		for (int i = 0; i < BURST; i++) {
			uint64_t flow;
			if (i < (int)fresh[b])
				flow = first++;
			else if (work == MISS || work == ATTACK)
				flow = strangers++;
			else
				flow = oldest + (BURSTS * BURST) / 4 + below(flows - (BURSTS * BURST) / 4);
			keys[b][i] = key_of(flow);
		}
}

static void run(enum work work)
{
	for (int b = 0; b < BURSTS; b++) {
		const void *pointers[BURST];
		int32_t positions[BURST];
		for (int i = 0; i < BURST; i++)
			pointers[i] = &keys[b][i];
		rte_hash_lookup_bulk(table, pointers, BURST, positions);
		for (int i = 0; i < BURST; i++)
			checksum += (uint32_t)positions[i];
		if (work == ATTACK)
			for (int i = 0; i < BURST; i++)
				checksum += (uint32_t)rte_hash_add_key(table, &keys[b][i]);
		for (uint32_t i = 0; i < fresh[b]; i++) {
			struct key gone = key_of(oldest++);
			rte_hash_del_key(table, &gone);
			rte_hash_add_key(table, &keys[b][i]);
			next_flow++;
		}
	}
}

static double rate(enum work work, double seconds)
{
	double best = 0;
	prepare(work);
	run(work);
	for (int slice = 0; slice < SLICES; slice++) {
		double spent = 0;
		uint64_t done = 0;
		while (spent < seconds / SLICES) {
			prepare(work);
			double from = now_s();
			run(work);
			spent += now_s() - from;
			done += BURSTS * BURST;
		}
		if (done / spent > best)
			best = done / spent;
	}
	return best;
}

int main(int argc, char **argv)
{
	int used = rte_eal_init(argc, argv);
	if (used < 0 || argc - used < 3) {
		fprintf(stderr, "rte_eal_init: %s\n", rte_strerror(rte_errno));
		return 1;
	}
	flows = strtoull(argv[used + 1], NULL, 10);
	double seconds = strtod(argv[used + 2], NULL) / 1000;
	struct rte_hash_parameters parameters = {
		.name = "flows",
		.entries = (uint32_t)flows,
		.key_len = sizeof(struct key),
		.hash_func = rte_hash_crc,
		.hash_func_init_val = 0x5eed,
	};
	table = rte_hash_create(&parameters);
	if (table == NULL) {
		fprintf(stderr, "rte_hash_create: %s\n", rte_strerror(rte_errno));
		return 1;
	}
	uint64_t refused = 0;
	for (next_flow = 0; next_flow < flows; next_flow++) {
		struct key key = key_of(next_flow);
		refused += rte_hash_add_key(table, &key) < 0;
	}
	printf("refused %llu\n", (unsigned long long)refused);
	printf("hit %.0f\n", rate(HIT, seconds));
	printf("miss %.0f\n", rate(MISS, seconds));
	printf("attack %.0f\n", rate(ATTACK, seconds));
	printf("churn1 %.0f\n", rate(CHURN_1, seconds));
	printf("churn10 %.0f\n", rate(CHURN_10, seconds));
	fprintf(stderr, "checksum %llu\n", (unsigned long long)checksum);
	return 0;
}

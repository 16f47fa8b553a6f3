/*
 * The simplest XDP program that forwards: every packet of one interface goes out by another one.
 *
 * SPDX-License-Identifier: Apache-2.0
 *
 * `redirect IN OUT native|generic`, with numbers of interfaces. Stays until it is killed; the link
 * goes with it. Says "attached" once packets are forwarded.
 */
#include <errno.h>
#include <linux/bpf.h>
#include <linux/if_link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int bpf(int command, union bpf_attr *attr)
{
	return (int)syscall(SYS_bpf, command, attr, sizeof(*attr));
}

int main(int count, char **arguments)
{
	if (count != 4)
		return 2;
	struct bpf_insn code[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 1, .imm = atoi(arguments[2])},
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 2, .imm = 0},
		{.code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_redirect},
		{.code = BPF_JMP | BPF_EXIT},
	};
	union bpf_attr attr;
	memset(&attr, 0, sizeof(attr));
	attr.prog_type = BPF_PROG_TYPE_XDP;
	attr.insns = (uintptr_t)code;
	attr.insn_cnt = sizeof(code) / sizeof(code[0]);
	attr.license = (uintptr_t) "GPL";
	int program = bpf(BPF_PROG_LOAD, &attr);
	if (program < 0)
		return fprintf(stderr, "the program is not loaded: %s\n", strerror(errno)), 1;
	memset(&attr, 0, sizeof(attr));
	attr.link_create.prog_fd = (uint32_t)program;
	attr.link_create.target_ifindex = (uint32_t)atoi(arguments[1]);
	attr.link_create.attach_type = BPF_XDP;
	attr.link_create.flags =
		strcmp(arguments[3], "native") == 0 ? XDP_FLAGS_DRV_MODE : XDP_FLAGS_SKB_MODE;
	if (bpf(BPF_LINK_CREATE, &attr) < 0)
		return fprintf(stderr, "it is not attached: %s\n", strerror(errno)), 1;
	puts("attached");
	fflush(stdout);
	for (;;)
		pause();
}

/*
 * rte_flow for every device: loaded before DPDK's, it notes in a file what a device is asked, and
 * marks the packets of the first queue as the last rule says. Each device looks into tunnels, too,
 * and notes what it is told to spread flows by. A test's stand-in for a card.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#define ALLOW_EXPERIMENTAL_API
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <rte_ethdev.h>
#include <rte_flow.h>

static uint16_t mark(uint16_t port, uint16_t queue, struct rte_mbuf *packets[], uint16_t count,
		     uint16_t most, void *id)
{
	(void)port, (void)queue, (void)most;
	for (uint16_t i = 0; i < count; i++) {
		packets[i]->ol_flags |= RTE_MBUF_F_RX_FDIR | RTE_MBUF_F_RX_FDIR_ID;
		packets[i]->hash.fdir.hi = (uint32_t)(uintptr_t)id;
	}
	return count;
}

static void note_bytes(FILE *file, const void *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++)
		fprintf(file, "%02x", ((const uint8_t *)bytes)[i]);
}

/* What is asked of a header: its bytes, and which of their bits count. */
static void note_item(FILE *file, const char *name, const struct rte_flow_item *item, size_t at,
		      size_t len)
{
	fprintf(file, " %s", name);
	if (item->spec == NULL)
		return;
	fputc('=', file);
	note_bytes(file, (const uint8_t *)item->spec + at, len);
	fputc('/', file);
	note_bytes(file, (const uint8_t *)item->mask + at, len);
}

static uint32_t note(uint16_t port, const char *what, const struct rte_flow_attr *attr,
		     const struct rte_flow_item *item, const struct rte_flow_action *action)
{
	FILE *file = fopen(getenv("CATENA_TEST_RULES"), "a");
	uint32_t id = 0;
	fprintf(file, "%s priority=%u", what, attr->priority);
	for (; item->type != RTE_FLOW_ITEM_TYPE_END; item++) {
		if (item->type == RTE_FLOW_ITEM_TYPE_ETH)
			note_item(file, "eth", item, 12, 2);
		else if (item->type == RTE_FLOW_ITEM_TYPE_VLAN)
			note_item(file, "vlan", item, 0, 4);
		else if (item->type == RTE_FLOW_ITEM_TYPE_IPV4)
			note_item(file, "ipv4", item, 12, 8);
		else if (item->type == RTE_FLOW_ITEM_TYPE_IPV6)
			note_item(file, "ipv6", item, 8, 32);
		else if (item->type == RTE_FLOW_ITEM_TYPE_UDP)
			note_item(file, "udp", item, 0, 4);
		else if (item->type == RTE_FLOW_ITEM_TYPE_TCP)
			note_item(file, "tcp", item, 0, 4);
		else
			fprintf(file, " item%d", item->type);
	}
	fprintf(file, " ->");
	for (; action->type != RTE_FLOW_ACTION_TYPE_END; action++) {
		if (action->type == RTE_FLOW_ACTION_TYPE_MARK) {
			id = ((const struct rte_flow_action_mark *)action->conf)->id;
			fprintf(file, " mark=%u", id);
		} else if (action->type == RTE_FLOW_ACTION_TYPE_QUEUE) {
			fprintf(file, " queue=%u",
				((const struct rte_flow_action_queue *)action->conf)->index);
		} else if (action->type == RTE_FLOW_ACTION_TYPE_RSS) {
			const struct rte_flow_action_rss *spread = action->conf;
			struct rte_eth_dev_info info;
			(void)rte_eth_dev_info_get(port, &info);
			bool can = (spread->types & ~info.flow_type_rss_offloads) == 0;
			fprintf(file, " spread=%u level=%u %s", spread->queue_num, spread->level,
				spread->types != 0 && can ? "as it can" : "as it cannot");
		}
	}
	fprintf(file, "\n");
	fclose(file);
	return id;
}

int rte_flow_validate(uint16_t port, const struct rte_flow_attr *attr,
		      const struct rte_flow_item items[], const struct rte_flow_action actions[],
		      struct rte_flow_error *error)
{
	(void)note(port, "ask", attr, items, actions);
	if (attr->priority <= 9)
		return 0;
	return rte_flow_error_set(error, ENOTSUP, RTE_FLOW_ERROR_TYPE_ATTR_PRIORITY, NULL,
				  "priorities up to 9");
}

struct rte_flow *rte_flow_create(uint16_t port, const struct rte_flow_attr *attr,
				 const struct rte_flow_item items[],
				 const struct rte_flow_action actions[],
				 struct rte_flow_error *error)
{
	uint32_t id = note(port, "do", attr, items, actions);
	(void)error;
	if (id != 0)
		(void)rte_eth_add_rx_callback(port, 0, mark, (void *)(uintptr_t)id);
	return (struct rte_flow *)8;
}

/* What a device offers, and that it knows the headers inside tunnels. */
int rte_eth_dev_info_get(uint16_t port, struct rte_eth_dev_info *info)
{
	int (*real)(uint16_t, struct rte_eth_dev_info *) = dlsym(RTLD_NEXT, "rte_eth_dev_info_get");
	int result = real(port, info);
	if (result == 0)
		info->flow_type_rss_offloads |= RTE_ETH_RSS_LEVEL_INNERMOST;
	return result;
}

/* Notes by which headers the device is to spread: the driver behind it knows no tunnels. */
int rte_eth_dev_configure(uint16_t port, uint16_t rx_queues, uint16_t tx_queues,
			  const struct rte_eth_conf *conf)
{
	int (*real)(uint16_t, uint16_t, uint16_t, const struct rte_eth_conf *) =
		dlsym(RTLD_NEXT, "rte_eth_dev_configure");
	struct rte_eth_conf known = *conf;
	uint64_t *spread = &known.rx_adv_conf.rss_conf.rss_hf;
	FILE *file = fopen(getenv("CATENA_TEST_RULES"), "a");
	if (file != NULL) {
		fprintf(file, "spread level=%u %s\n", (unsigned)RTE_ETH_RSS_LEVEL(*spread),
			known.rxmode.mq_mode == RTE_ETH_MQ_RX_RSS ? "on" : "off");
		fclose(file);
	}
	*spread &= ~RTE_ETH_RSS_LEVEL_MASK;
	return real(port, rx_queues, tx_queues, &known);
}

int rte_flow_flush(uint16_t port, struct rte_flow_error *error)
{
	(void)port, (void)error;
	return 0;
}

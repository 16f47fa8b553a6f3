"""Prints the tables of README.md from blocks.csv: python3 tables.py

A ratio is the geometric mean, over the sizes (and ports) of a row, of container over process within
a block; its interval of 95 % is Student's over the logarithms of the 12 blocks.
"""

import csv
import math
import os
from collections import defaultdict

T_OF_11 = 2.201
KERNEL = ("packet_socket", "tap", "xdp")
PORTS = ("link", *KERNEL, "dpdk")
SIZES = ("64", "128", "256", "512", "800", "1024", "1280", "1500")


def read():
    """By combination and block."""
    found = defaultdict(dict)
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "blocks.csv")) as file:
        for row in csv.DictReader(file):
            key = tuple(row[name] for name in ("port", "size", "rate", "states", "mode"))
            found[key][row["block"]] = row
    return found


def ratio(found, pairs, metric):
    """Of the second over the first of each pair of combinations."""
    logs = defaultdict(list)
    for under, over in pairs:
        for block in found[over].keys() & found[under].keys():
            one, other = found[over][block][metric], found[under][block][metric]
            logs[block].append(math.log(float(one) / float(other)))
    means = [sum(of_block) / len(of_block) for of_block in logs.values()]
    mean = sum(means) / len(means)
    error = math.sqrt(sum((x - mean) ** 2 for x in means) / (len(means) - 1) / len(means))
    low, high = (math.exp(mean + sign * T_OF_11 * error) for sign in (-1, 1))
    return f"{math.exp(mean):.3f} ({low:.3f} to {high:.3f})"


def middle(found, keys, metric):
    """Geometric mean."""
    logs = [math.log(float(row[metric])) for key in keys for row in found[key].values()]
    return math.exp(sum(logs) / len(logs))


def main():
    found = read()

    def modes(ports, sizes, rates, states="+c"):
        keys = [(p, s, r, states) for p in ports for s in sizes for r in rates]
        keys = [key for key in keys if (*key, "process") in found]
        return [((*key, "process"), (*key, "container")) for key in keys]

    for port in PORTS:
        for rate in ("20kpps", "100kpps", "50%"):
            pairs = modes([port], SIZES, [rate])
            medians = [middle(found, keys, "p50_ns") / 1e3 for keys in zip(*pairs)]
            ratios = [ratio(found, pairs, metric) for metric in ("p50_ns", "p99_ns", "pdv_ns")]
            print(port, rate, *(f"{us:.1f} us" for us in medians), *ratios, sep=" | ")
    for port in PORTS:
        pairs = modes([port], SIZES, ["max"])
        rates = [middle(found, keys, "rate_pps") / 1e6 for keys in zip(*pairs)]
        told = (f"{mpps:.3f} Mpps" for mpps in rates)
        print(port, "max", *told, ratio(found, pairs, "rate_pps"), sep=" | ")
    for size in SIZES:
        latency = modes(KERNEL, [size], ["20kpps", "100kpps", "50%"])
        told = ratio(found, latency, "p50_ns")
        print(size, told, ratio(found, modes(KERNEL, [size], ["max"]), "rate_pps"), sep=" | ")
    for port in PORTS:
        for mode in ("process", "container"):
            keys = [[(port, s, "20kpps", c, mode) for s in ("64", "1500")] for c in ("+c", "-c")]
            print(port, mode, "-c over +c", ratio(found, list(zip(*keys)), "p50_ns"), sep=" | ")


if __name__ == "__main__":
    main()

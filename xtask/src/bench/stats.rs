//! Reads the port statistics that `dpdk-testpmd --stats-period` prints.
//!
//! Each period gives one block per port: the port's number, then counters since start, then rates
//! since the last block. The parser takes lines and returns one sample at the end of each block;
//! it does no I/O and reads no clock. Other lines (start-up, screen clearing) are passed over.
//!
//! SPDX-License-Identifier: Apache-2.0

/// What one block says about one port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PortSample {
    pub(crate) port: u32,
    /// Packets received since start.
    pub(crate) rx_packets: u64,
    /// Packets received per second since the last block.
    pub(crate) rx_pps: u64,
}

/// State between lines: the block's port and counter seen so far.
#[derive(Debug, Default)]
pub(crate) struct StatsParser {
    port: Option<u32>,
    rx_packets: u64,
}

impl StatsParser {
    /// Takes one line; returns a sample when the line completes a port's block.
    pub(crate) fn push(&mut self, line: &str) -> Option<PortSample> {
        if let Some(at) = line.find("NIC statistics for port") {
            self.port = number_after(&line[at..], "NIC statistics for port");
            self.rx_packets = 0;
            return None;
        }
        if let Some(rx_packets) = number_after(line, "RX-packets:") {
            self.rx_packets = rx_packets;
            return None;
        }
        let rx_pps = number_after(line, "Rx-pps:")?;
        let port = self.port.take()?;
        Some(PortSample {
            port,
            rx_packets: self.rx_packets,
            rx_pps,
        })
    }
}

/// The decimal number that follows `label` and any blanks.
fn number_after<N: std::str::FromStr>(line: &str, label: &str) -> Option<N> {
    let rest = line[line.find(label)? + label.len()..].trim_start();
    let end = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    rest[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One period of a forwarder with two ports, as testpmd lays it out.
    const PERIOD: &str = "\u{1b}[2J\u{1b}[1;1H
Port statistics ====================================
  ######################## NIC statistics for port 0  ########################
  RX-packets: 1200       RX-missed: 0          RX-bytes:  76800
  RX-errors: 0
  RX-nombuf:  0
  TX-packets: 7          TX-errors: 0          TX-bytes:  0

  Throughput (since last show)
  Rx-pps:          400          Rx-bps:       204800
  Tx-pps:            0          Tx-bps:            0
  ############################################################################

  ######################## NIC statistics for port 1  ########################
  RX-packets: 0          RX-missed: 0          RX-bytes:  0
  Rx-pps:            0          Rx-bps:            0
";

    #[test]
    fn each_port_gives_one_sample_per_period() {
        let mut parser = StatsParser::default();
        let samples: Vec<_> = PERIOD
            .lines()
            .filter_map(|line| parser.push(line))
            .collect();
        assert_eq!(
            samples,
            [
                PortSample {
                    port: 0,
                    rx_packets: 1200,
                    rx_pps: 400
                },
                PortSample {
                    port: 1,
                    rx_packets: 0,
                    rx_pps: 0
                },
            ]
        );
    }

    #[test]
    fn a_rate_without_a_port_is_passed_over() {
        let mut parser = StatsParser::default();
        assert_eq!(parser.push("  Rx-pps:  5  Rx-bps: 1"), None);
        assert_eq!(parser.push("  Rx-pps:  "), None);
    }
}

//! What is left in a chain that has ended: packets that never arrived, by name.

use crate::supervisor::status::Status;

impl Status {
    /// What did not leave a chain that has ended, a sentence for each place; none if it drained.
    pub fn remains(&self) -> Vec<String> {
        let links = self.links.iter().filter(|link| link.kind != "tcp");
        let links = links
            .filter(|link| link.occupancy > 0)
            .map(|link| format!("{}: {} packets are left in it", link.name, link.occupancy));
        let nodes = self.nodes.iter().filter(|node| node.held > 0);
        let nodes = nodes.map(|node| format!("{}: it holds {} packets", node.name, node.held));
        let buffers = self.buffers;
        let missing = buffers
            .allocated
            .saturating_sub(buffers.free + buffers.in_flight);
        let missing = (missing > 0).then(|| format!("{missing} buffers were not found again"));
        links.chain(nodes).chain(missing).collect()
    }
}

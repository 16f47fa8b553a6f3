//! PFD Management: what SMFs provide for applications.
//!
//! On N4. All that is kept is read together with what is new, and takes the place of what was there
//! only if all of it can be read and has room. Who has no association provides nothing.
//! Specification: TS 29.244 6.2.5, 6.2.6.1, 7.4.3.

use catena_wire::pfcp::{Cause, Group, IeType, Ies, MessageType, View, key};

use crate::application::Table;
use crate::model::Fault;
use crate::node;
use crate::transactions::Peer;
use crate::upf::Upf;

/// Longest Application ID: one stands whole in each report of what it starts and stops.
const APPLICATION_ID_LEN_MAX: usize = 255;

impl Upf {
    /// A PFD Management Request: what it says of an application takes the place of all that was
    /// said of it; nothing of it ends it, and nothing at all ends all of them (7.4.3.1).
    pub(crate) fn manage_pfds(&mut self, view: &View<&[u8]>, from: Peer) -> Result<Vec<u8>, Fault> {
        let ies = view.ies();
        self.is_associated(&ies, from)?;
        let header = node::answer_to(view.header(), MessageType::PFD_MANAGEMENT_RESPONSE);
        let mut kept: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        if ies.has(IeType::APPLICATION_ID_PFDS) {
            for ie in Ies::new(self.store.pfds()).flatten() {
                let id = ie.group().map(|group| group.require(key::APPLICATION_ID));
                if let Some(Ok(id)) = id {
                    kept.push((id.to_vec(), written(ie.value)?));
                }
            }
        }
        for ie in ies.all(IeType::APPLICATION_ID_PFDS) {
            let group: Group<'_> = match ie.group() {
                Some(group) => group,
                None => continue,
            };
            let id = group.require(key::APPLICATION_ID)?;
            if id.len() > APPLICATION_ID_LEN_MAX {
                return Err(Cause::MANDATORY_IE_INCORRECT
                    .because_of(IeType::APPLICATION_ID)
                    .into());
            }
            kept.retain(|(known, _)| known != id);
            if group.has(IeType::PFD_CONTEXT) {
                kept.push((id.to_vec(), written(ie.value)?));
            }
        }
        let bytes: Vec<u8> = kept.into_iter().flat_map(|(_, bytes)| bytes).collect();
        let table = Table::read(&bytes)?;
        let answer = self.accepted(&header)?;
        if !self.store.set_pfds(&bytes) {
            let ie_type = IeType::APPLICATION_ID_PFDS;
            return Err(Cause::NO_RESOURCES_AVAILABLE.because_of(ie_type).into());
        }
        self.applications.table = table;
        Ok(answer)
    }

    /// The ID of an application by its number.
    pub(crate) fn application_id(&self, number: u64) -> Option<&[u8]> {
        let application = self.applications.table.get(number)?;
        Some(&application.id)
    }
}

/// The IE Application ID's PFDs of this value.
fn written(value: &[u8]) -> Result<Vec<u8>, Fault> {
    let ie_type = IeType::APPLICATION_ID_PFDS;
    let too_long = Cause::NO_RESOURCES_AVAILABLE.because_of(ie_type);
    let len = u16::try_from(value.len()).map_err(|_| too_long)?;
    let mut bytes = ie_type.0.to_be_bytes().to_vec();
    bytes.extend(len.to_be_bytes());
    bytes.extend_from_slice(value);
    Ok(bytes)
}

#[cfg(test)]
pub(crate) mod tests;

//! PFD Management Requests of the scripted SMF.
//!
//! Beside `requests`: applications of a scenario as IEs, all kinds of an application in one PFD.

use catena_wire::pfcp::value::detection::{PfdContents, Strings};
use catena_wire::pfcp::{Full, IeType, Writer, key};

use crate::smf::scenario::PfdRule;

/// Writes the IEs of a PFD Management Request.
pub(in crate::smf) fn pfds(writer: &mut Writer<'_>, rules: &[PfdRule]) -> Result<(), Full> {
    for rule in rules {
        writer.group(IeType::APPLICATION_ID_PFDS, |writer| {
            writer.put(key::APPLICATION_ID, &rule.application.as_bytes())?;
            let protocol = rule.protocol.as_deref().unwrap_or_default();
            // The first of a kind, and those behind it.
            let first = |list: &[String]| list.first().cloned();
            let more = |list: &[String]| (list.len() > 1).then(|| strings(&list[1..]));
            let domains = rule.domains.iter().skip(1);
            let domains: Vec<String> = domains
                .flat_map(|name| [name.clone(), protocol.to_owned()])
                .collect();
            let (flow, url) = (first(&rule.flows), first(&rule.urls));
            let domain = first(&rule.domains);
            let (flows, urls) = (more(&rule.flows), more(&rule.urls));
            let domains = (!domains.is_empty()).then(|| strings(&domains));
            let bytes = |text: &'_ Option<String>| text.clone().map(String::into_bytes);
            let [flow, url, domain, custom] = [&flow, &url, &domain, &rule.custom].map(bytes);
            let contents = PfdContents {
                flow_description: flow.as_deref(),
                url: url.as_deref(),
                domain_name: domain.as_deref(),
                custom: custom.as_deref(),
                domain_name_protocol: rule.protocol.as_ref().map(|text| text.as_bytes()),
                additional_flow_descriptions: all(flows.as_ref()),
                additional_urls: all(urls.as_ref()),
                additional_domain_names: all(domains.as_ref()),
            };
            if contents == PfdContents::default() {
                return Ok(());
            }
            writer.group(IeType::PFD_CONTEXT, |writer| {
                writer.put(key::PFD_CONTENTS, &contents)
            })
        })?;
    }
    Ok(())
}

/// Strings, each behind its length.
fn strings(list: &[String]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for text in list {
        bytes.extend(u16::try_from(text.len()).unwrap_or(0).to_be_bytes());
        bytes.extend_from_slice(text.as_bytes());
    }
    bytes
}

fn all(bytes: Option<&Vec<u8>>) -> Option<Strings<'_>> {
    bytes.and_then(|bytes| Strings::new(bytes).ok())
}

//! What control requests change of an NF's settings.
//!
//! Beside packets. Most control requests ask something, or act once. Some change what an NF does
//! from then on, as another line of the chain file would: those *amend* its configuration. A kind
//! says in its plan what they make of it ([`NfPlan::amended_by`](super::NfPlan::amended_by)), so
//! that the supervisor can keep them with the chain: whoever runs the node next is built from the
//! amended configuration, and is never asked again.

use serde_json::Value;

use super::hook::Hook;

/// What `requests`, in order, make of a configuration. For each:
///
/// - `None` if it only asks, or acts once: the configuration stays as it is.
/// - `Some(key)` if the configuration is amended. A later request with the same key, or with one
///   that this one lies under (`a` for `a/b`), leaves the same alone as both would together.
/// - An error if it cannot be: a sentence for the person who asked. The NF is not asked then, and
///   the configuration stays as it is.
///
/// An NF that is built from the amended configuration does what one does that has accepted the
/// request, and its plan is the same. Whoever accepts a request accepts it again.
pub type Amend = fn(config: &mut Value, requests: &[Value]) -> Vec<Result<Option<String>, String>>;

/// Whether a kind's requests amend its configuration, and how.
pub type Amends = Hook<Amend>;

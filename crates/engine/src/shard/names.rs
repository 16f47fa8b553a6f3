//! Names of shards and splitters: what `status` and messages show of nodes that no file names.

/// What separates the name of a node from the number of its shard. No name in a file has it.
const SHARD_SEPARATOR: char = '/';
/// What separates the name of a sender from the word for its splitter.
const SPLIT_SUFFIX: &str = ":split";

/// The name of a shard: `nf/3`.
pub fn shard_name(node: &str, index: u16) -> String {
    format!("{node}{SHARD_SEPARATOR}{index}")
}

/// The name of the splitter behind an output of `node`: `in:split`, or `sort.red:split` if the node
/// has several outputs.
pub fn splitter_name(node: &str, output: Option<&str>) -> String {
    match output {
        Some(output) => format!("{node}.{output}{SPLIT_SUFFIX}"),
        None => format!("{node}{SPLIT_SUFFIX}"),
    }
}

/// The name in the chain file of the node that `name` is a shard or a splitter of; the name of a
/// node that is neither.
pub fn name_in_file(name: &str) -> &str {
    let name = name.strip_suffix(SPLIT_SUFFIX).unwrap_or(name);
    let name = name.split_once('.').map_or(name, |(node, _)| node);
    name.split_once(SHARD_SEPARATOR)
        .map_or(name, |(node, _)| node)
}

/// Whether `name` is a splitter's.
pub fn is_splitter(name: &str) -> bool {
    name.ends_with(SPLIT_SUFFIX)
}

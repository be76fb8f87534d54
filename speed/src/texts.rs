//! Property texts: what `Meanings.read` returns of them, in Python.

const NAME_END: u8 = 1;
const VALUE_END: u8 = 2;
const UNIQUE_KEY: &[u8] = b"UNIQ_KEY\x01";
const KEYS: &[u8] = b"KEYS\x01";
const INNER: &[u8] = b"INNER_";

/// A text in its parts.
pub struct Parts {
    /// With its closing separator.
    pub text: Vec<u8>,
    pub unique_key: (usize, usize),
    pub keys: Vec<u8>,
    /// The text without these two properties.
    pub rest: Vec<u8>,
}

/// Return the parts of a text that JSON has; None if Python has to read it.
pub fn read(json: &[u8]) -> Option<Parts> {
    let text = unescaped(json)?;
    let (begin, end) = property(&text, UNIQUE_KEY)??;
    let unique_key = (begin + UNIQUE_KEY.len(), end);
    if !is_safe(text.get(unique_key.0..end)?) {
        return None;
    }
    let mut rest = without(&text, begin, end);
    let mut keys = Vec::new();
    if let Some((begin, end)) = property(&rest, KEYS)? {
        keys.extend_from_slice(rest.get(begin + KEYS.len()..end)?);
        if keys.contains(&NAME_END) {
            return None;
        }
        rest = without(&rest, begin, end);
    }
    Some(Parts { text, unique_key, keys, rest })
}

/// What the properties of a record say to queues and keys; empty for none.
#[derive(Default)]
pub struct Labels<'a> {
    pub unique_key: &'a [u8],
    pub keys: &'a [u8],
    pub tags: &'a [u8],
}

/// Return the labels of a text; of several values the last one counts that is not empty.
pub fn labels(text: &[u8]) -> Labels<'_> {
    let mut labels = Labels::default();
    for pair in text.split(|&byte| byte == VALUE_END) {
        let Some(end) = pair.iter().position(|&byte| byte == NAME_END) else {
            continue;
        };
        let value = &pair[end + 1..];
        if value.is_empty() {
            continue;
        }
        match &pair[..end] {
            b"UNIQ_KEY" => labels.unique_key = value,
            b"KEYS" => labels.keys = value,
            b"TAGS" => labels.tags = value,
            _ => {}
        }
    }
    labels
}

/// Whether a text concerns an inner batch or light queues.
pub fn has_inner(text: &[u8]) -> bool {
    text.windows(INNER.len()).any(|window| window == INNER)
}

/// Return where a property begins and its value ends: Some(None) if the text doesn't have it, None
/// if the name is the end of another one.
fn property(text: &[u8], name: &[u8]) -> Option<Option<(usize, usize)>> {
    let Some(begin) = text.windows(name.len()).position(|window| window == name) else {
        return Some(None);
    };
    if begin > 0 && text[begin - 1] != VALUE_END {
        return None;
    }
    let size = text[begin..].iter().position(|&byte| byte == VALUE_END)?;
    Some(Some((begin, begin + size)))
}

fn without(text: &[u8], begin: usize, end: usize) -> Vec<u8> {
    [&text[..begin], &text[end + 1..]].concat()
}

/// Return a text that has no escapes but those of the separators.
fn unescaped(json: &[u8]) -> Option<Vec<u8>> {
    let mut text = Vec::with_capacity(json.len() + 1);
    let mut left = json;
    while let Some(size) = left.iter().position(|&byte| byte == b'\\') {
        text.extend_from_slice(&left[..size]);
        left = left[size..].strip_prefix(b"\\u000")?;
        let (&digit, rest) = left.split_first()?;
        text.push(match digit {
            b'1' => NAME_END,
            b'2' => VALUE_END,
            _ => return None,
        });
        left = rest;
    }
    text.extend_from_slice(left);
    if *text.last()? != VALUE_END {
        text.push(VALUE_END); // RocketMQ's clients before 5.0 leave it out
    }
    Some(text)
}

/// Whether a unique key needs no escape in JSON, and is not empty.
fn is_safe(key: &[u8]) -> bool {
    key.iter().any(u8::is_ascii_alphanumeric)
        && key.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:@+/=,".contains(byte))
}

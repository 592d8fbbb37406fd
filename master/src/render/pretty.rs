//! JSON for people: two blanks a level, as kube-apiserver indents. Works on the bytes, without reading them into values. PURE.

/// `json` is one valid document without blanks between its tokens (others are kept as they are).
pub fn indent(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len() * 2);
    let mut depth = 0;
    let mut in_text = false;
    let mut escaped = false;
    for (at, &byte) in json.iter().enumerate() {
        if in_text {
            out.push(byte);
            in_text = escaped || byte != b'"';
            escaped = !escaped && byte == b'\\';
            continue;
        }
        match byte {
            b'"' => {
                in_text = true;
                out.push(byte);
            }
            b'{' | b'[' => {
                out.push(byte);
                if !matches!(json.get(at + 1), Some(b'}' | b']')) {
                    depth += 1;
                    line(&mut out, depth);
                }
            }
            b'}' | b']' => {
                if !matches!(json.get(at.wrapping_sub(1)), Some(b'{' | b'[')) {
                    depth -= 1;
                    line(&mut out, depth);
                }
                out.push(byte);
            }
            b',' => {
                out.push(byte);
                line(&mut out, depth);
            }
            b':' => out.extend_from_slice(b": "),
            _ => out.push(byte),
        }
    }
    out.push(b'\n');
    out
}

fn line(out: &mut Vec<u8>, depth: usize) {
    out.push(b'\n');
    out.resize(out.len() + 2 * depth, b' ');
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn as_serde_would() {
        for value in [
            json!({}),
            json!([]),
            json!({"a": [], "b": {}, "c": [1, {"d": "e\"}[:,\\"}, []], "f": null, "\\": "\\\\"}),
            json!([[["{"], 1.5], true, "]"]),
        ] {
            let expected = format!("{}\n", serde_json::to_string_pretty(&value).expect("a value prints"));
            let found = indent(value.to_string().as_bytes());
            assert_eq!(String::from_utf8_lossy(&found), expected);
            assert_eq!(serde_json::from_slice::<Value>(&found).expect("still JSON"), value);
        }
    }
}

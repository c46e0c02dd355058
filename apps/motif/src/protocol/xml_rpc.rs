//! XML-RPC messages. Values are those of JSON: integers beyond 32 bits are written as `i8`, as Python's `xmlrpc.client` reads them.

use std::fmt::Write as _;

use anyhow::{Context, Result, bail, ensure};
use roxmltree::{Document, Node};
use serde_json::{Map, Value};

/// The deepest nesting of values.
const DEEPEST: usize = 32;

/// A call: the method and its parameters.
pub fn parse_call(text: &str) -> Result<(String, Vec<Value>)> {
    let document = Document::parse(text).context("the request is not XML")?;
    let root = document.root_element();
    ensure!(root.has_tag_name("methodCall"), "expected a methodCall");
    let name = child(root, "methodName").and_then(|node| node.text()).context("there is no methodName")?;
    let parameters = child(root, "params").map_or(Ok(Vec::new()), parameters)?;
    Ok((name.trim().to_owned(), parameters))
}

/// A response to a call.
#[derive(Clone, Debug, PartialEq)]
pub enum MethodResponse {
    /// The value.
    Value(Value),
    /// The message of a fault.
    Fault(String),
}

/// A response.
pub fn parse_response(text: &str) -> Result<MethodResponse> {
    let document = Document::parse(text).context("the response is not XML")?;
    let root = document.root_element();
    ensure!(root.has_tag_name("methodResponse"), "expected a methodResponse");
    if let Some(fault) = child(root, "fault") {
        let fault = child(fault, "value").map_or(Ok(Value::Null), |node| value(node, 0))?;
        let message = fault["faultString"].as_str().unwrap_or("a fault without text");
        return Ok(MethodResponse::Fault(message.to_owned()));
    }
    let all = child(root, "params").map_or(Ok(Vec::new()), parameters)?;
    all.into_iter().next().map(MethodResponse::Value).context("the response has no value")
}

fn child<'a>(node: Node<'a, 'a>, name: &str) -> Option<Node<'a, 'a>> {
    node.children().find(|child| child.has_tag_name(name))
}

fn parameters(node: Node<'_, '_>) -> Result<Vec<Value>> {
    let all = node.children().filter(|child| child.has_tag_name("param"));
    all.map(|param| {
        let found = param.children().find(|child| child.has_tag_name("value"));
        value(found.context("a param without a value")?, 0)
    })
    .collect()
}

fn value(node: Node<'_, '_>, depth: usize) -> Result<Value> {
    ensure!(depth < DEEPEST, "values are nested deeper than {DEEPEST}");
    let Some(inner) = node.children().find(Node::is_element) else {
        return Ok(Value::from(node.text().unwrap_or("")));
    };
    let text = inner.text().unwrap_or("");
    Ok(match inner.tag_name().name() {
        "int" | "i4" | "i8" => Value::from(text.trim().parse::<i64>().context("an invalid integer")?),
        "boolean" => Value::from(text.trim() == "1"),
        "double" => Value::from(text.trim().parse::<f64>().context("an invalid double")?),
        "string" => Value::from(text),
        "nil" => Value::Null,
        "array" => {
            let data =
                inner.children().find(|child| child.has_tag_name("data")).context("an array without data")?;
            let all = data.children().filter(|child| child.has_tag_name("value"));
            Value::Array(all.map(|node| value(node, depth + 1)).collect::<Result<_>>()?)
        }
        "struct" => {
            let mut map = Map::new();
            for member in inner.children().filter(|child| child.has_tag_name("member")) {
                let part = |name: &str| member.children().find(|child| child.has_tag_name(name));
                let name = part("name").and_then(|node| node.text()).context("a member without a name")?;
                let found = part("value").context("a member without a value")?;
                map.insert(name.to_owned(), value(found, depth + 1)?);
            }
            Value::Object(map)
        }
        other => bail!("values of type {other} are not supported"),
    })
}

/// Writes a call.
pub fn write_call(method: &str, parameters: &[Value]) -> String {
    let mut out =
        format!("<?xml version=\"1.0\"?><methodCall><methodName>{}</methodName><params>", escape(method));
    for parameter in parameters {
        out.push_str("<param>");
        write_value(parameter, &mut out);
        out.push_str("</param>");
    }
    out + "</params></methodCall>"
}

/// Writes a response.
pub fn write_response(outcome: &Result<Value>) -> String {
    let mut out = String::from("<?xml version=\"1.0\"?><methodResponse>");
    match outcome {
        Ok(found) => {
            out.push_str("<params><param>");
            write_value(found, &mut out);
            out.push_str("</param></params>");
        }
        Err(error) => {
            out.push_str("<fault>");
            write_value(&serde_json::json!({"faultCode": 1, "faultString": format!("{error:#}")}), &mut out);
            out.push_str("</fault>");
        }
    }
    out + "</methodResponse>"
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\r' => out.push_str("&#13;"),
            // Not allowed in XML 1.0.
            '\0'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => {
                out.push('?');
            }
            _ => out.push(letter),
        }
    }
    out
}

fn write_value(value: &Value, out: &mut String) {
    out.push_str("<value>");
    match value {
        Value::Null => out.push_str("<string></string>"),
        Value::Bool(flag) => {
            let _ = write!(out, "<boolean>{}</boolean>", u8::from(*flag));
        }
        Value::Number(number) => match number.as_i64() {
            Some(number) if i32::try_from(number).is_ok() => {
                let _ = write!(out, "<int>{number}</int>");
            }
            Some(number) => {
                let _ = write!(out, "<i8>{number}</i8>");
            }
            None => {
                let _ = write!(out, "<double>{number}</double>");
            }
        },
        Value::String(text) => {
            let _ = write!(out, "<string>{}</string>", escape(text));
        }
        Value::Array(all) => {
            out.push_str("<array><data>");
            all.iter().for_each(|value| write_value(value, out));
            out.push_str("</data></array>");
        }
        Value::Object(map) => {
            out.push_str("<struct>");
            for (name, value) in map {
                {
                    let _ = write!(out, "<member><name>{}</name>", escape(name));
                }
                write_value(value, out);
                out.push_str("</member>");
            }
            out.push_str("</struct>");
        }
    }
    out.push_str("</value>");
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_survive_a_round_trip() {
        let value = json!({"a": [1, -5, 5_000_000_000i64, true, 1.5, "x<&>\"\n"], "b": {"c": ""}});
        let (method, parameters) =
            parse_call(&write_call("motif.search", std::slice::from_ref(&value))).unwrap();
        assert_eq!((method.as_str(), parameters.as_slice()), ("motif.search", std::slice::from_ref(&value)));
        let response = parse_response(&write_response(&Ok(value.clone()))).unwrap();
        assert_eq!(response, MethodResponse::Value(value));
        let fault = write_response(&Err(anyhow::anyhow!("no <such> search")));
        let fault = parse_response(&fault).unwrap();
        assert_eq!(fault, MethodResponse::Fault("no <such> search".to_owned()));
    }

    #[test]
    fn hostile_text_is_an_error() {
        let deep = format!(
            "<methodCall><methodName>x</methodName><params><param>{}",
            "<value><array><data>".repeat(5000)
        );
        let bomb = "<!DOCTYPE x [<!ENTITY a \"aaaa\">]><methodCall><methodName>&a;</methodName></methodCall>";
        for text in [
            "",
            "<",
            "<a/>",
            "<methodCall/>",
            &deep,
            bomb,
            "<methodCall><methodName>x</methodName><params><param><value><int>x</int></value></param></params></methodCall>",
        ] {
            assert!(parse_call(text).is_err(), "{}", &text[..text.len().min(80)]);
        }
    }
}

//! What may be a name.

use unicode_normalization::UnicodeNormalization;

/// The longest name, in bytes.
const LONGEST: usize = 256;

/// The name as it is stored and looked up: the same letters in one form, NFC.
pub(crate) fn normal(name: &str) -> String {
    if name.is_ascii() { name.to_owned() } else { name.nfc().collect() }
}

/// The name as it is stored, or why it cannot be one.
pub(crate) fn checked(name: &str) -> Result<String, String> {
    let name = normal(name);
    let complain = |what: &str| Err(format!("{name:?} cannot be a name: {what}"));
    let Some(first) = name.chars().next() else { return complain("it is empty") };
    if name.len() > LONGEST {
        return complain(&format!("it has {} bytes of at most {LONGEST}", name.len()));
    }
    if first.is_ascii() && !first.is_ascii_alphanumeric() && first != '_' {
        return complain("it must begin with a letter, a digit or an underscore");
    }
    if let Some(bad) = name.chars().find(|letter| *letter == '/' || letter.is_ascii_control()) {
        return complain(&format!("it holds {bad:?}"));
    }
    if name.ends_with(' ') {
        return complain("it ends with a space");
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_and_brought_into_one_form() {
        for bad in ["", "a/b", "a ", "-a", "a\nb", &"n".repeat(257)] {
            assert!(checked(bad).unwrap_err().contains("cannot be a name"), "{bad}");
        }
        assert_eq!(checked("u\u{308}ber").unwrap(), "über");
        for good in ["x", "_FillValue", "4d", "a b", "größe", "α+β"] {
            assert_eq!(checked(good).unwrap(), good);
        }
    }
}

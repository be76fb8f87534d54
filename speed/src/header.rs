//! The JSON header of a plain send, read in one pass.
//!
//! Only headers as RocketMQ's clients write them are read here. Anything else (escapes other than
//! those of the two separators, texts that are not ASCII but for the properties, numbers with a
//! fraction, null, a name that comes twice, a field that is missing) is None, and Python reads it.

const SEND_MESSAGE_V2: i32 = 310;
const DIGITS_MAX: usize = 18;

/// What storing needs of a send.
#[derive(Default)]
pub struct Send<'a> {
    pub opaque: i32,
    pub topic: &'a [u8],
    pub queue_id: i32,
    pub sys_flag: i32,
    pub flag: i32,
    pub born_ms: i64,
    pub reconsume_times: i32,
    /// The property text as JSON has it, without quotes.
    pub text: &'a [u8],
}

/// Read a header.
pub fn read(header: &[u8]) -> Option<Send<'_>> {
    let mut send = Send::default();
    let mut scan = Scan { left: header };
    let (mut seen, mut code) = (Seen(0), 0);
    scan.object(|scan, name| {
        match name {
            b"code" => (seen.first(0)?, code = scan.int32()?).1,
            b"flag" => (seen.first(1)?, (scan.int32()? == 0).then_some(())?).1,
            b"opaque" => (seen.first(2)?, send.opaque = scan.int32()?).1,
            b"version" => (seen.first(3)?, scan.int32().map(drop)?).1,
            b"extFields" => (seen.first(4)?, fields(scan, &mut send)?).1,
            b"language" | b"remark" => drop(scan.ascii()?),
            _ => scan.any()?,
        }
        Some(())
    })?;
    scan.blanks();
    (code == SEND_MESSAGE_V2 && seen.has(4) && scan.left.is_empty()).then_some(send)
}

/// The names of the fields, from `a` to `n`; all before `i` are required, and so are properties.
fn fields<'a>(scan: &mut Scan<'a>, send: &mut Send<'a>) -> Option<()> {
    let mut seen = Seen(0);
    scan.object(|scan, name| {
        let &[letter @ b'a'..=b'n'] = name else {
            return match name {
                b"ns" | b"bname" => scan.ascii().map(drop),
                b"nsd" | b"oway" | b"lo" => scan.boolean().map(drop),
                _ => scan.any(),
            };
        };
        seen.first(letter - b'a')?;
        match letter {
            b'b' => send.topic = scan.ascii()?,
            b'd' | b'l' => drop(scan.int32()?),
            b'e' => send.queue_id = scan.int32()?,
            b'f' => send.sys_flag = scan.int32()?,
            b'g' => send.born_ms = scan.int64()?,
            b'h' => send.flag = scan.int32()?,
            b'i' => send.text = scan.text()?,
            b'j' => send.reconsume_times = scan.int32()?,
            b'k' => drop(scan.boolean()?),
            b'm' => (!scan.boolean()?).then_some(())?,
            _ => drop(scan.ascii()?),
        }
        Some(())
    })?;
    (0..=8).all(|field| seen.has(field)).then_some(())
}

/// Which fields have come.
struct Seen(u16);

impl Seen {
    fn first(&mut self, field: u8) -> Option<()> {
        let is_first = !self.has(field);
        self.0 |= 1 << field;
        is_first.then_some(())
    }

    fn has(&self, field: u8) -> bool {
        self.0 & (1 << field) != 0
    }
}

struct Scan<'a> {
    left: &'a [u8],
}

impl<'a> Scan<'a> {
    fn blanks(&mut self) {
        while let [b' ' | b'\t' | b'\n' | b'\r', rest @ ..] = self.left {
            self.left = rest;
        }
    }

    fn next(&mut self) -> Option<u8> {
        let (&byte, rest) = self.left.split_first()?;
        self.left = rest;
        Some(byte)
    }

    /// Read an object; `value` reads the value of each name.
    fn object(&mut self, mut value: impl FnMut(&mut Self, &'a [u8]) -> Option<()>) -> Option<()> {
        (self.next()? == b'{').then_some(())?;
        loop {
            self.blanks();
            let name = self.ascii()?;
            self.blanks();
            (self.next()? == b':').then_some(())?;
            self.blanks();
            value(self, name)?;
            self.blanks();
            match self.next()? {
                b',' => {}
                b'}' => return Some(()),
                _ => return None,
            }
        }
    }

    /// Read a string without escapes and control characters.
    fn ascii(&mut self) -> Option<&'a [u8]> {
        (self.next()? == b'"').then_some(())?;
        let size = self.left.iter().position(|&byte| !is_usual(byte))?;
        let (text, rest) = self.left.split_at(size);
        self.left = rest;
        (self.next()? == b'"').then_some(text)
    }

    /// Read a string that may have escapes, which are left in it; it is UTF-8.
    fn text(&mut self) -> Option<&'a [u8]> {
        (self.next()? == b'"').then_some(())?;
        let whole = self.left;
        loop {
            let size = self.left.iter().position(|&byte| !is_usual(byte) && byte < 0x80)?;
            self.left = &self.left[size..];
            match self.next()? {
                b'"' => break,
                b'\\' => drop(self.next()?),
                _ => return None,
            }
        }
        let text = &whole[..whole.len() - self.left.len() - 1];
        (text.is_ascii() || std::str::from_utf8(text).is_ok()).then_some(text)
    }

    /// Read a whole number, with or without quotes.
    fn int64(&mut self) -> Option<i64> {
        let digits = if self.left.first() == Some(&b'"') {
            self.ascii()?
        } else {
            let is_part =
                |byte: &u8| matches!(byte, b'-' | b'+' | b'.' | b'0'..=b'9' | b'A'..=b'z');
            let size = self.left.iter().position(|byte| !is_part(byte))?;
            let (digits, rest) = self.left.split_at(size);
            self.left = rest;
            digits
        };
        let (sign, digits) = match digits {
            [b'-', digits @ ..] => (-1, digits),
            digits => (1, digits),
        };
        match digits {
            [b'0'] if sign > 0 => return Some(0),
            [] | [b'0', ..] => return None,
            _ if digits.len() > DIGITS_MAX => return None,
            _ => {}
        }
        let add = |number: i64, &byte: &u8| {
            byte.is_ascii_digit().then(|| 10 * number + i64::from(byte - b'0'))
        };
        digits.iter().try_fold(0, add).map(|number| sign * number)
    }

    fn int32(&mut self) -> Option<i32> {
        i32::try_from(self.int64()?).ok()
    }

    fn boolean(&mut self) -> Option<bool> {
        match self.ascii()? {
            b"true" => Some(true),
            b"false" => Some(false),
            _ => None,
        }
    }

    /// Skip a value of a field that no send has, whatever its type.
    fn any(&mut self) -> Option<()> {
        if self.left.first() == Some(&b'"') {
            return self.ascii().map(drop);
        }
        for word in [&b"null"[..], b"true", b"false"] {
            if let Some(rest) = self.left.strip_prefix(word) {
                self.left = rest;
                return Some(());
            }
        }
        self.int64().map(drop)
    }
}

/// Whether a byte stands for itself in a string of ASCII characters.
fn is_usual(byte: u8) -> bool {
    matches!(byte, b' '..=b'~' if byte != b'"' && byte != b'\\')
}

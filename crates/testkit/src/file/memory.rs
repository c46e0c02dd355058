//! Memory of one access: contiguous or laid out, filled and checked byte by byte.

use aqueduct_file::{Access, Count, Incoming, LaidOut, Outgoing, Result, Sink, Source};

use super::random_layout::RandomLayout;

/// What memory holds where nothing was put.
const UNTOUCHED: u8 = 0xEE;

/// Memory of either kind, for every form of access.
pub(super) enum TestMemory {
    Plain(Vec<u8>),
    LaidOut(LaidOut),
}

impl TestMemory {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Plain(bytes) => bytes,
            Self::LaidOut(laid_out) => &laid_out.bytes,
        }
    }

    /// Memory of this form with `data` in its places, one after the other if there is no form.
    pub(super) fn holding(form: Option<&RandomLayout>, data: &[u8]) -> Self {
        let Some(form) = form else { return Self::Plain(data.to_vec()) };
        let mut bytes = vec![UNTOUCHED; room(form, data.len())];
        for (n, byte) in data.iter().enumerate() {
            bytes[form.offset(n as u64) as usize] = *byte;
        }
        let copies = data.len() / form.bytes.len();
        Self::LaidOut(LaidOut::new(bytes, &form.layout, copies as u64).expect("a layout of memory"))
    }

    /// Memory for `len` data bytes.
    pub(super) fn empty(form: Option<&RandomLayout>, len: usize) -> Self {
        Self::holding(form, &vec![UNTOUCHED; len])
    }

    /// Panics unless it holds these data bytes and nothing else.
    pub(super) fn check(&self, form: Option<&RandomLayout>, data: &[u8], context: &str) {
        let mut expected = vec![UNTOUCHED; self.bytes().len()];
        for (n, byte) in data.iter().enumerate() {
            expected[form.map_or(n, |form| form.offset(n as u64) as usize)] = *byte;
        }
        let wrong = self.bytes().iter().zip(&expected).position(|(got, wanted)| got != wanted);
        let Some(at) = wrong else { return };
        let (got, wanted) = (self.bytes()[at], expected[at]);
        panic!("byte {at} of memory is {got:#04x} instead of {wanted:#04x}: {context}");
    }
}

fn room(form: &RandomLayout, data: usize) -> usize {
    (0..data).map(|n| form.offset(n as u64) as usize + 1).max().unwrap_or(0)
}

impl Outgoing for TestMemory {
    fn source(&self) -> Source<'_> {
        match self {
            Self::Plain(bytes) => bytes.source(),
            Self::LaidOut(laid_out) => laid_out.source(),
        }
    }
}

impl Incoming for TestMemory {
    fn sink(&mut self) -> Sink<'_> {
        match self {
            Self::Plain(bytes) => bytes.sink(),
            Self::LaidOut(laid_out) => laid_out.sink(),
        }
    }
}

/// Whether to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CompletionStyle {
    Blocking,
    Started,
    Split,
}

/// How an access is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AccessMethod {
    pub(super) collective: bool,
    pub(super) style: CompletionStyle,
}

impl AccessMethod {
    /// All there are.
    pub(super) const ALL: [Self; 5] = [
        Self { collective: false, style: CompletionStyle::Blocking },
        Self { collective: false, style: CompletionStyle::Started },
        Self { collective: true, style: CompletionStyle::Blocking },
        Self { collective: true, style: CompletionStyle::Started },
        Self { collective: true, style: CompletionStyle::Split },
    ];

    pub(super) fn write<B: Outgoing + 'static>(self, place: Access<'_>, buffer: B) -> Result<Count> {
        match (self.collective, self.style) {
            (false, CompletionStyle::Blocking) => place.write(buffer.source()),
            (true, CompletionStyle::Blocking) => place.all().write(buffer.source()),
            (false, _) => place.start_write(buffer)?.wait().map(|(_, count)| count),
            (true, CompletionStyle::Started) => {
                place.all().start_write(buffer)?.wait().map(|(_, count)| count)
            }
            (true, CompletionStyle::Split) => place.all().begin_write(buffer)?.end().map(|(_, count)| count),
        }
    }

    pub(super) fn read<B: Incoming + 'static>(self, place: Access<'_>, mut buffer: B) -> Result<(B, Count)> {
        match (self.collective, self.style) {
            (false, CompletionStyle::Blocking) => place.read(buffer.sink()).map(|count| (buffer, count)),
            (true, CompletionStyle::Blocking) => place.all().read(buffer.sink()).map(|count| (buffer, count)),
            (false, _) => place.start_read(buffer)?.wait(),
            (true, CompletionStyle::Started) => place.all().start_read(buffer)?.wait(),
            (true, CompletionStyle::Split) => place.all().begin_read(buffer)?.end(),
        }
    }
}

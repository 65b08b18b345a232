//! Error reports in the form of libjsonnet, with the messages of libjsonnet where libjsonnet reports the same error.
//! A report begins with the message. One line for each place of the stack follows, indented by a tab, the innermost
//! place first.

use std::collections::HashMap;
use std::fmt::Write;

use rsjsonnet_lang::ast::{BinaryOp, UnaryOp};
use rsjsonnet_lang::lexer::LexError;
use rsjsonnet_lang::parser::{ActualToken, ExpectedToken, ParseError};
use rsjsonnet_lang::program::{
    AnalyzeError, EvalError, EvalErrorKind as Kind, EvalErrorValueType as Type, EvalStackTraceItem as Item, LoadError,
};
use rsjsonnet_lang::span::{SourceId, SpanContext, SpanId, SpanManager};
use rsjsonnet_lang::token::STokenKind as Token;

/// The names and contents of all files that have been read.
pub struct Sources(HashMap<SourceId, (String, Vec<u8>)>);

impl Sources {
    pub fn new(library: (SourceId, &[u8])) -> Self {
        Self(HashMap::from([(library.0, ("<std>".to_string(), library.1.to_vec()))]))
    }
    pub fn add(&mut self, source: SourceId, name: &str, text: Vec<u8>) {
        self.0.insert(source, (name.to_string(), text));
    }
    pub fn name(&self, source: SourceId) -> &str {
        &self.0[&source].0
    }
    pub fn text(&self, source: SourceId) -> &[u8] {
        &self.0[&source].1
    }

    /// Returns FILE:LINE:COLUMN. Lines and columns begin at 1. Columns count bytes, as in libjsonnet.
    fn place(&self, spans: &SpanManager, span: SpanId) -> String {
        let (context, begin, _) = spans.get_span(span);
        let SpanContext::Source(source) = *spans.get_context(context);
        let before = &self.text(source)[..begin];
        let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
        let column = begin - before.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1) + 1;
        format!("{}:{line}:{column}", self.name(source))
    }
}

pub fn of_load_error(error: &LoadError, spans: &SpanManager, sources: &Sources) -> String {
    let (span, message) = match error {
        LoadError::Lex(error) => of_lex_error(error),
        LoadError::Parse(ParseError::Expected { span, expected, instead }) => (*span, of_tokens(expected, instead)),
        LoadError::Analyze(error) => of_analyze_error(error),
    };
    format!("STATIC ERROR: {}: {message}", sources.place(spans, span))
}

pub fn of_eval_error(error: &EvalError, spans: &SpanManager, sources: &Sources, import_fault: &str) -> String {
    let (span, message) = of_kind(&error.kind, import_fault);
    if matches!(error.kind, Kind::ImportFailed { .. }) && message.starts_with("STATIC ERROR: ") {
        return message;
    }
    // Each frame is a place and the function or value that contains the place. The next frame calls the function or
    // uses the value.
    let mut frames = vec![(span.map(|span| sources.place(spans, span)), String::new())];
    let mut items = Vec::new();
    for item in error.stack_trace.iter().rev() {
        let (span, what) = of_item(item);
        match item {
            // An array item without a span is evaluated while the result is written.
            Item::ManifestArrayItem { index } | Item::ArrayItem { span: None, index } => {
                items.push(format!("array item {index}"));
                continue;
            }
            Item::ManifestObjectField { name } | Item::ObjectField { span: None, name } => {
                items.push(format!("field <{}>", name.replace('\n', " ")));
                continue;
            }
            _ => items.clear(), // the items belong to a text that the file itself converts to JSON
        }
        if let Some(inside) = frames.last_mut() {
            if inside.1.is_empty() {
                inside.1 = what;
            }
        }
        frames.push((span.map(|span| sources.place(spans, span)), String::new()));
    }
    let mut account = format!("RUNTIME ERROR: {message}");
    for (index, (place, inside)) in frames.iter().enumerate() {
        let is_told = index < FRAMES_MAX || index + FRAMES_MAX >= frames.len();
        if let (true, Some(place)) = (is_told, place) {
            let _ = write!(account, "\n\t{place}\t{inside}");
        }
    }
    for item in items {
        let _ = write!(account, "\n\t{item}");
    }
    account
}

/// Maximum number of frames at each end of the stack, as in libjsonnet.
const FRAMES_MAX: usize = 10;

/// Returns the innermost place of the stack, or an empty string.
pub fn place_of(stack: &[Item], spans: &SpanManager, sources: &Sources) -> String {
    stack.iter().rev().find_map(|item| of_item(item).0).map_or(String::new(), |span| sources.place(spans, span))
}

fn of_item(item: &Item) -> (Option<SpanId>, String) {
    match item {
        Item::Expr { span } | Item::Import { span } => (Some(*span), String::new()),
        Item::Call { span, name: Some(name) } => (*span, format!("function <{name}>")),
        Item::Call { span, name: None } => (*span, "function <anonymous>".to_string()),
        Item::Variable { span, name } => (Some(*span), format!("thunk <{name}>")),
        Item::ArrayItem { span, .. } => (*span, "thunk <array_element>".to_string()),
        Item::ObjectField { span, .. } => (*span, "object <anonymous>".to_string()),
        Item::CompareArrayItem { index } => (None, format!("comparing array item {index}")),
        Item::CompareObjectField { name } => (None, format!("comparing field <{name}>")),
        Item::ManifestArrayItem { .. } | Item::ManifestObjectField { .. } => (None, String::new()),
    }
}

fn of_lex_error(error: &LexError) -> (SpanId, String) {
    let (span, message) = match error {
        LexError::InvalidChar { span, chr } => return (*span, format!("could not lex the character {chr:?}")),
        LexError::InvalidUtf16EscapeSequence { span, cu1, .. } => {
            return (*span, format!("\\u{cu1:04x} is half of a pair of unicode escapes"));
        }
        LexError::InvalidEscapeInString { span, chr } => {
            return (*span, format!("unknown escape sequence in string literal: \\{chr}"));
        }
        LexError::InvalidUtf8 { span, .. } => (span, "not UTF-8"),
        LexError::UnfinishedMultilineComment { span } => (span, "multi-line comment has no terminating */"),
        LexError::LeadingZeroInNumber { span } => (span, "a number must not begin with 0"),
        LexError::MissingFracDigits { span } => (span, "couldn't lex number, junk after decimal point"),
        LexError::MissingExpDigits { span } => (span, "couldn't lex number, junk after 'E'"),
        LexError::MissingDigitAfterUnderscore { span } => (span, "couldn't lex number, junk after _"),
        LexError::ExpOverflow { span } => (span, "a number's exponent is too large"),
        LexError::IncompleteUnicodeEscape { span } => (span, "truncated unicode escape sequence in string literal"),
        LexError::UnfinishedString { span } => (span, "unterminated string"),
        LexError::MissingLineBreakAfterTextBlockStart { span } => {
            (span, "text block syntax requires new line after |||")
        }
        LexError::MissingWhitespaceTextBlockStart { span } => {
            (span, "text block's first line must start with whitespace")
        }
        LexError::InvalidTextBlockTermination { span } => (span, "text block not terminated with |||"),
    };
    (*span, message.to_string())
}

fn of_analyze_error(error: &AnalyzeError) -> (SpanId, String) {
    match error {
        AnalyzeError::UnknownVariable { span, name } => (*span, format!("Unknown variable: {name}")),
        AnalyzeError::SelfOutsideObject { self_span } => {
            (*self_span, "Can't use self outside of an object.".to_string())
        }
        AnalyzeError::SuperOutsideObject { super_span } => {
            (*super_span, "Can't use super outside of an object.".to_string())
        }
        AnalyzeError::DollarOutsideObject { dollar_span } => (*dollar_span, "No top-level object found.".to_string()),
        AnalyzeError::RepeatedLocalName { repeated_span, name, .. } => {
            (*repeated_span, format!("duplicate local var: {name}"))
        }
        AnalyzeError::RepeatedFieldName { repeated_span, name, .. } => {
            (*repeated_span, format!("duplicate field: {name}"))
        }
        AnalyzeError::RepeatedParamName { repeated_span, name, .. } => {
            (*repeated_span, format!("duplicate function parameter: {name}"))
        }
        AnalyzeError::PositionalArgAfterNamed { arg_span } => {
            (*arg_span, "Positional argument after a named argument is not allowed".to_string())
        }
        AnalyzeError::TextBlockAsImportPath { span } => {
            (*span, "block string literals not allowed in imports".to_string())
        }
        AnalyzeError::ComputedImportPath { span } => (*span, "computed imports are not allowed".to_string()),
    }
}

fn of_tokens<'a>(expected: impl IntoIterator<Item = &'a ExpectedToken>, instead: &ActualToken) -> String {
    let expected: Vec<&ExpectedToken> = expected.into_iter().collect();
    let may_be = |token| expected.iter().any(|one| matches!(one, ExpectedToken::Simple(kind) if *kind == token));
    let instead = match instead {
        ActualToken::EndOfFile => return "unexpected end of file".to_string(),
        ActualToken::Simple(kind) => format!("`{}`", words_of_token(*kind)),
        ActualToken::OtherOp(operator) => format!("`{operator}`"),
        ActualToken::Ident(name) => format!("`{name}`"),
        ActualToken::Number => "a number".to_string(),
        ActualToken::String | ActualToken::TextBlock => "a string".to_string(),
    };
    if may_be(Token::Comma) {
        let closers = [
            (Token::RightBracket, "array element"),
            (Token::RightBrace, "field"),
            (Token::RightParen, "function argument"),
        ];
        if let Some((_, what)) = closers.into_iter().find(|(closer, _)| may_be(*closer)) {
            return format!("expected a comma before next {what}.");
        }
    }
    // Omit tokens that can follow any value, unless there are no others.
    let may_go_on = |token: &ExpectedToken| match token {
        ExpectedToken::BinaryOp => true,
        ExpectedToken::Simple(kind) => {
            matches!(kind, Token::LeftParen | Token::Dot | Token::LeftBracket | Token::LeftBrace)
        }
        _ => false,
    };
    let says_more = expected.iter().any(|token| !may_go_on(token));
    let expected: Vec<String> = expected
        .into_iter()
        .filter(|token| !says_more || !may_go_on(token))
        .map(|token| match token {
            ExpectedToken::EndOfFile => "the end of the file".to_string(),
            ExpectedToken::Simple(kind) => format!("`{}`", words_of_token(*kind)),
            ExpectedToken::Ident => "a name".to_string(),
            ExpectedToken::Number => "a number".to_string(),
            ExpectedToken::String | ExpectedToken::TextBlock => "a string".to_string(),
            ExpectedToken::Expr => "an expression".to_string(),
            ExpectedToken::BinaryOp => "an operator".to_string(),
        })
        .collect();
    format!("expected {}, got {instead}", expected.join(" or "))
}

fn of_kind(kind: &Kind, import_fault: &str) -> (Option<SpanId>, String) {
    let (span, message) = match kind {
        Kind::InvalidIndexedType { span, got_type } => {
            return (
                Some(*span),
                format!("can only index objects, strings, and arrays, got {}.", words_of_type(*got_type)),
            );
        }
        Kind::InvalidSlicedType { span, got_type } => {
            return (Some(*span), format!("can only slice strings and arrays, got {}.", words_of_type(*got_type)));
        }
        Kind::SliceIndexOrStepIsNotNumber { span, got_type } => {
            return (Some(*span), format!("a slice index must be a number, got {}.", words_of_type(*got_type)));
        }
        Kind::StringIndexIsNotNumber { span, got_type } => {
            return (Some(*span), format!("string index must be a number, got {}.", words_of_type(*got_type)));
        }
        Kind::ArrayIndexIsNotNumber { span, got_type } => {
            return (Some(*span), format!("array index must be a number, got {}.", words_of_type(*got_type)));
        }
        Kind::NumericIndexIsNotValid { span, index } => return (Some(*span), format!("{index} is not an index.")),
        Kind::NumericIndexOutOfRange { span, index, length } => {
            return (Some(*span), format!("array bounds error: {index} not within [0, {length})"));
        }
        Kind::ObjectIndexIsNotString { span, got_type } => {
            return (Some(*span), format!("object index must be a string, got {}.", words_of_type(*got_type)));
        }
        Kind::RepeatedFieldName { span, name } => (Some(*span), format!("duplicate field name: \"{name}\"")),
        Kind::FieldNameIsNotString { span, got_type } => {
            return (Some(*span), format!("field name must be string, got: {}", words_of_type(*got_type)));
        }
        Kind::UnknownObjectField { span, field_name } => (Some(*span), format!("field does not exist: {field_name}")),
        Kind::FieldOfNonObject { span } => (Some(*span), "only objects have fields.".to_string()),
        Kind::SuperWithoutSuperObject { span } => {
            (Some(*span), "attempt to use super when there is no super class.".to_string())
        }
        Kind::ForSpecValueIsNotArray { span, got_type } => {
            return (Some(*span), format!("a `for` must iterate over an array, got {}.", words_of_type(*got_type)));
        }
        Kind::CondIsNotBool { span, got_type } => {
            return (Some(*span), format!("condition must be boolean, got {}.", words_of_type(*got_type)));
        }
        Kind::CalleeIsNotFunction { span, got_type } => {
            return (*span, format!("only functions can be called, got {}", words_of_type(*got_type)));
        }
        Kind::TooManyCallArgs { span, num_params } => {
            (*span, format!("too many args, function has {num_params} parameter(s)"))
        }
        Kind::UnknownCallParam { span, param_name } => (*span, format!("function has no parameter {param_name}")),
        Kind::RepeatedCallParam { span, param_name } => {
            (*span, format!("binding parameter a second time: {param_name}"))
        }
        Kind::CallParamNotBound { span, param_name } => {
            (*span, format!("function parameter {param_name} not bound in call."))
        }
        Kind::InvalidUnaryOpType { span, op, rhs_type } => (
            Some(*span),
            format!("unary operator {} does not operate on type {}", words_of_unary(*op), words_of_type(*rhs_type)),
        ),
        Kind::InvalidBinaryOpTypes { span, op, lhs_type, rhs_type } => (
            *span,
            format!(
                "binary operator {} requires matching types, got {} and {}.",
                words_of_binary(*op),
                words_of_type(*lhs_type),
                words_of_type(*rhs_type)
            ),
        ),
        Kind::NumberNotBitwiseSafe { span } => {
            (*span, "numeric value outside safe integer range for bitwise operation.".to_string())
        }
        Kind::NumberOverflow { span } => (*span, "overflow".to_string()),
        Kind::NumberNan { span } => (*span, "not a number".to_string()),
        Kind::DivByZero { span } => (*span, "division by zero.".to_string()),
        Kind::ShiftByNegative { span } => (*span, "shift by negative exponent".to_string()),
        Kind::InvalidStdFuncArgType { func_name, arg_index, expected_types, got_type } => {
            let expected: Vec<&str> = expected_types.iter().map(|one| words_of_type(*one)).collect();
            (
                None,
                format!(
                    "std.{func_name}: argument {} must be {}, got {}",
                    arg_index + 1,
                    expected.join(" or "),
                    words_of_type(*got_type)
                ),
            )
        }
        Kind::AssertFailed { span, message } => {
            (Some(*span), message.clone().unwrap_or_else(|| "Assertion failed.".to_string()))
        }
        Kind::AssertEqualFailed { lhs, rhs } => (None, format!("Assertion failed. {lhs} != {rhs}")),
        Kind::ExplicitError { span, message } => (Some(*span), message.clone()),
        Kind::ImportFailed { span, .. } => (Some(*span), import_fault.to_string()),
        Kind::UnknownExtVar { name } => (None, format!("undefined external variable: {name}")),
        Kind::Other { span, message } => (*span, message.clone()),
        Kind::CompareDifferentTypesInequality { lhs_type, rhs_type } => (
            None,
            format!(
                "binary operator < requires matching types, got {} and {}.",
                words_of_type(*lhs_type),
                words_of_type(*rhs_type)
            ),
        ),
        Kind::PrimitiveEqualsNonPrimitive { got_type } => {
            (None, format!("primitiveEquals operates on primitive types, got {}", words_of_type(*got_type)))
        }
        Kind::StackOverflow => (None, "max stack frames exceeded.".to_string()),
        Kind::InfiniteRecursion => (None, "max stack frames exceeded.".to_string()),
        Kind::NativeCallFailed => (None, "there are no native functions".to_string()),
        Kind::ManifestFunction => (None, "couldn't manifest function in JSON output.".to_string()),
        Kind::CompareNullInequality => (None, "null cannot be compared with < or >".to_string()),
        Kind::CompareBooleanInequality => (None, "a boolean cannot be compared with < or >".to_string()),
        Kind::CompareObjectInequality => (None, "an object cannot be compared with < or >".to_string()),
        Kind::CompareFunctions => (None, "cannot test equality of functions".to_string()),
    };
    (span, message)
}

fn words_of_type(one: Type) -> &'static str {
    match one {
        Type::Null => "null",
        Type::Bool => "boolean",
        Type::Number => "number",
        Type::String => "string",
        Type::Array => "array",
        Type::Object => "object",
        Type::Function => "function",
    }
}

fn words_of_unary(operator: UnaryOp) -> &'static str {
    match operator {
        UnaryOp::Minus => "-",
        UnaryOp::Plus => "+",
        UnaryOp::BitwiseNot => "~",
        UnaryOp::LogicNot => "!",
    }
}

fn words_of_binary(operator: BinaryOp) -> &'static str {
    match operator {
        BinaryOp::Add => "+",
        BinaryOp::Sub => "-",
        BinaryOp::Mul => "*",
        BinaryOp::Div => "/",
        BinaryOp::Rem => "%",
        BinaryOp::Shl => "<<",
        BinaryOp::Shr => ">>",
        BinaryOp::Lt => "<",
        BinaryOp::Le => "<=",
        BinaryOp::Gt => ">",
        BinaryOp::Ge => ">=",
        BinaryOp::Eq => "==",
        BinaryOp::Ne => "!=",
        BinaryOp::In => "in",
        BinaryOp::BitwiseAnd => "&",
        BinaryOp::BitwiseOr => "|",
        BinaryOp::BitwiseXor => "^",
        BinaryOp::LogicAnd => "&&",
        BinaryOp::LogicOr => "||",
    }
}

fn words_of_token(token: Token) -> &'static str {
    match token {
        Token::Assert => "assert",
        Token::Else => "else",
        Token::Error => "error",
        Token::False => "false",
        Token::For => "for",
        Token::Function => "function",
        Token::If => "if",
        Token::Import => "import",
        Token::Importstr => "importstr",
        Token::Importbin => "importbin",
        Token::In => "in",
        Token::Local => "local",
        Token::Null => "null",
        Token::Tailstrict => "tailstrict",
        Token::Then => "then",
        Token::Self_ => "self",
        Token::Super => "super",
        Token::True => "true",
        Token::Exclam => "!",
        Token::ExclamEq => "!=",
        Token::Dollar => "$",
        Token::Percent => "%",
        Token::Amp => "&",
        Token::AmpAmp => "&&",
        Token::LeftParen => "(",
        Token::RightParen => ")",
        Token::Asterisk => "*",
        Token::Plus => "+",
        Token::PlusColon => "+:",
        Token::PlusColonColon => "+::",
        Token::PlusColonColonColon => "+:::",
        Token::Comma => ",",
        Token::Minus => "-",
        Token::Dot => ".",
        Token::Slash => "/",
        Token::Colon => ":",
        Token::ColonColon => "::",
        Token::ColonColonColon => ":::",
        Token::Semicolon => ";",
        Token::Lt => "<",
        Token::LtLt => "<<",
        Token::LtEq => "<=",
        Token::Eq => "=",
        Token::EqEq => "==",
        Token::Gt => ">",
        Token::GtEq => ">=",
        Token::GtGt => ">>",
        Token::LeftBracket => "[",
        Token::RightBracket => "]",
        Token::Hat => "^",
        Token::LeftBrace => "{",
        Token::Pipe => "|",
        Token::PipePipe => "||",
        Token::RightBrace => "}",
        Token::Tilde => "~",
    }
}

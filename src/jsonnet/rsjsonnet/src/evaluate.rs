//! Evaluates a text and its imports to JSON.

use std::collections::HashMap;
use std::ffi::CString;
use std::io::Write;
use std::mem::ManuallyDrop;
use std::ptr;
use std::rc::Rc;

use rsjsonnet_lang::arena::Arena;
use rsjsonnet_lang::interner::InternedStr;
use rsjsonnet_lang::program::{
    Callbacks, EvalError, EvalStackTraceItem, ImportError, NativeError, Program, Thunk, Value, ValueKind,
};
use rsjsonnet_lang::span::{SpanContext, SpanId};

use crate::account::{self, Sources};
use crate::{Given, JsonnetVm, jsonnet_realloc};

/// The path and the content of an imported file.
struct Found {
    path: String,
    bytes: Vec<u8>,
}

impl Found {
    /// Returns why the content is not text, or None if the content is text. check_text() in machine.cpp has the same
    /// messages.
    fn fault(&self) -> Option<String> {
        if self.bytes.contains(&0) {
            return Some(format!("{}: contains a NUL byte; only text can be imported", self.path));
        }
        let bad = std::str::from_utf8(&self.bytes).err()?;
        Some(format!("{}: is not UTF-8 (byte {})", self.path, bad.valid_up_to() + 1))
    }
}

struct World<'p, 'vm> {
    vm: &'vm JsonnetVm,
    sources: Sources,
    found: HashMap<(String, String), Rc<Found>>, // the key is the importing file's folder and the wanted path
    imported: HashMap<String, Thunk<'p>>,
    fault: String, // error message of the last failed import
}

impl<'p> World<'p, '_> {
    fn load(&mut self, program: &mut Program<'p>, name: &str, code: Vec<u8>) -> Result<Thunk<'p>, String> {
        let (context, source) = program.span_manager_mut().insert_source_context(code.len());
        self.sources.add(source, name, code);
        let code = self.sources.text(source).to_vec();
        program
            .load_source(context, &code, true, name)
            .map_err(|error| account::of_load_error(&error, program.span_manager(), &self.sources))
    }

    fn find(&mut self, program: &Program<'p>, from: SpanId, wanted: &str) -> Result<Rc<Found>, String> {
        let (context, _, _) = program.span_manager().get_span(from);
        let SpanContext::Source(source) = *program.span_manager().get_context(context);
        let name = self.sources.name(source);
        let key = (name[..name.rfind('/').map_or(0, |slash| slash + 1)].to_string(), wanted.to_string());
        if let Some(found) = self.found.get(&key) {
            return Ok(found.clone());
        }
        let (Some((callback, data)), Ok(folder), Ok(asked)) =
            (self.vm.import, CString::new(key.0.as_str()), CString::new(wanted))
        else {
            return Err(format!("couldn't open import \"{wanted}\": it names no file"));
        };
        let (mut here, mut buffer, mut length) = (ptr::null_mut(), ptr::null_mut(), 0);
        let (failed, path, bytes) = unsafe {
            let failed = callback(data, folder.as_ptr(), asked.as_ptr(), &mut here, &mut buffer, &mut length);
            let bytes = std::slice::from_raw_parts(buffer.cast::<u8>(), length).to_vec();
            jsonnet_realloc(ptr::null_mut(), buffer, 0);
            let path = if here.is_null() { String::new() } else { crate::text(here) };
            jsonnet_realloc(ptr::null_mut(), here, 0);
            (failed != 0, path, bytes)
        };
        if failed {
            return Err(format!("couldn't open import \"{wanted}\": {}", String::from_utf8_lossy(&bytes)));
        }
        let found = Rc::new(Found { path, bytes });
        self.found.insert(key, found.clone());
        Ok(found)
    }

    fn found(&mut self, program: &Program<'p>, from: SpanId, wanted: &str) -> Result<Rc<Found>, ImportError> {
        self.find(program, from, wanted).map_err(|fault| {
            self.fault = fault;
            ImportError
        })
    }

    fn found_text(&mut self, program: &Program<'p>, from: SpanId, wanted: &str) -> Result<Rc<Found>, ImportError> {
        let found = self.found(program, from, wanted)?;
        match found.fault() {
            None => Ok(found),
            Some(fault) => {
                self.fault = format!("couldn't open import \"{wanted}\": {fault}");
                Err(ImportError)
            }
        }
    }

    fn account(&self, program: &Program<'p>, error: &EvalError) -> String {
        account::of_eval_error(error, program.span_manager(), &self.sources, &self.fault)
    }
}

impl<'p> Callbacks<'p> for World<'p, '_> {
    fn import(&mut self, program: &mut Program<'p>, from: SpanId, path: &str) -> Result<Thunk<'p>, ImportError> {
        let found = self.found(program, from, path)?;
        if let Some(thunk) = self.imported.get(&found.path) {
            return Ok(thunk.clone());
        }
        let found = self.found_text(program, from, path)?;
        let thunk = self.load(program, &found.path, found.bytes.clone()).map_err(|fault| {
            self.fault = fault;
            ImportError
        })?;
        self.imported.insert(found.path.clone(), thunk.clone());
        Ok(thunk)
    }

    fn import_str(&mut self, program: &mut Program<'p>, from: SpanId, path: &str) -> Result<String, ImportError> {
        let found = self.found_text(program, from, path)?;
        Ok(String::from_utf8_lossy(&found.bytes).into_owned())
    }

    fn import_bin(&mut self, program: &mut Program<'p>, from: SpanId, path: &str) -> Result<Vec<u8>, ImportError> {
        Ok(self.found(program, from, path)?.bytes.clone())
    }

    fn trace(&mut self, program: &mut Program<'p>, message: &str, stack: &[EvalStackTraceItem]) {
        let place = account::place_of(stack, program.span_manager(), &self.sources);
        let _ = writeln!(std::io::stderr(), "TRACE: {place} {message}"); // standard error may be closed
    }

    fn native_call(
        &mut self,
        _: &mut Program<'p>,
        _: InternedStr<'p>,
        _: &[Value<'p>],
    ) -> Result<Value<'p>, NativeError> {
        Err(NativeError)
    }
}

fn value_of<'p>(
    given: &Given,
    kind: &str,
    program: &mut Program<'p>,
    world: &mut World<'p, '_>,
) -> Result<Thunk<'p>, String> {
    if given.is_code {
        return world.load(program, &format!("<{kind}:{}>", given.name), given.value.clone().into_bytes());
    }
    Ok(program.value_to_thunk(&Value::string(&given.value)))
}

/// If the JSON has at least this size in bytes, evaluate() does not free the evaluator's memory. Freeing the memory
/// takes a quarter of the time of the evaluation, and the process ends soon afterwards.
const LARGE: usize = 1 << 20;

/// Returns JSON, or an error report in the form of libjsonnet.
pub fn evaluate(vm: &JsonnetVm, name: &str, code: &str) -> Result<String, String> {
    let arena = Arena::new();
    let mut owner = ManuallyDrop::new(Program::new(&arena));
    let answer = evaluate_in(&mut owner, vm, name, code);
    if answer.as_ref().map_or(true, |json| json.len() < LARGE) {
        // SAFETY: `owner` is not used again.
        unsafe { ManuallyDrop::drop(&mut owner) };
    }
    answer
}

fn evaluate_in<'p>(program: &mut Program<'p>, vm: &JsonnetVm, name: &str, code: &str) -> Result<String, String> {
    let world = &mut World {
        vm,
        sources: Sources::new(program.get_stdlib_source()),
        found: HashMap::new(),
        imported: HashMap::new(),
        fault: String::new(),
    };
    for given in &vm.external {
        let thunk = value_of(given, "extvar", program, world)?;
        let name = program.intern_str(&given.name);
        program.add_ext_var(name, &thunk);
    }
    let thunk = world.load(program, name, code.as_bytes().to_vec())?;
    let mut value = program.eval_value(&thunk, world).map_err(|error| world.account(program, &error))?;
    if matches!(value.kind(), ValueKind::Function) {
        let mut named = Vec::new();
        for given in &vm.top_level {
            let thunk = value_of(given, "top-level-arg", program, world)?;
            named.push((program.intern_str(&given.name), thunk));
        }
        let function = program.value_to_thunk(&value);
        value = program.eval_call(&function, &[], &named, world).map_err(|error| world.account(program, &error))?;
    }
    let mut json = program.manifest_json(&value, true).map_err(|error| world.account(program, &error))?;
    json.push('\n');
    Ok(json)
}

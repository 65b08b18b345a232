//! Implements the part of libjsonnet.h that combu uses, with rsjsonnet's evaluator. The header is in the folder of this
//! crate. combu calls the functions in a child process, because an evaluation that needs too much memory or stack ends
//! the process.

#![allow(clippy::missing_safety_doc)] // the C header documents safety

mod account;
mod evaluate;

use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::ManuallyDrop;
use std::ptr;

/// If an allocation fails, the process exits with combu's exit code (k_exit_out_of_memory in child.cpp). By default,
/// Rust would abort with a message on standard error. libjsonnet throws an exception in this case.
struct Allocator;
const EXIT_OUT_OF_MEMORY: c_int = 86;

unsafe extern "C" {
    fn _exit(status: c_int) -> !;
    fn realloc(buffer: *mut c_void, size: usize) -> *mut c_void;
    fn free(buffer: *mut c_void);
}

fn there<T>(memory: *mut T) -> *mut T {
    if memory.is_null() {
        unsafe { _exit(EXIT_OUT_OF_MEMORY) }
    }
    memory
}

unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        there(unsafe { System.alloc(layout) })
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        there(unsafe { System.alloc_zeroed(layout) })
    }
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        unsafe { System.dealloc(memory, layout) }
    }
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        there(unsafe { System.realloc(memory, layout, size) })
    }
}

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

type ImportCallback = unsafe extern "C" fn(
    context: *mut c_void,
    folder: *const c_char,
    wanted: *const c_char,
    found_here: *mut *mut c_char,
    buffer: *mut *mut c_char,
    length: *mut usize,
) -> c_int;

/// A named argument of the evaluation: a string, or Jsonnet code.
struct Given {
    name: String,
    value: String,
    is_code: bool,
}

pub struct JsonnetVm {
    import: Option<(ImportCallback, *mut c_void)>,
    external: Vec<Given>,
    top_level: Vec<Given>,
}

unsafe fn text(given: *const c_char) -> String {
    unsafe { CStr::from_ptr(given) }.to_string_lossy().into_owned()
}

unsafe fn give(to: &mut Vec<Given>, name: *const c_char, value: *const c_char, is_code: bool) {
    let name = unsafe { text(name) };
    to.retain(|one| one.name != name);
    to.push(Given { name, value: unsafe { text(value) }, is_code });
}

#[unsafe(no_mangle)]
pub extern "C" fn jsonnet_version() -> *const c_char {
    concat!("rsjsonnet ", env!("RSJSONNET_VERSION"), "\0").as_ptr().cast()
}

#[unsafe(no_mangle)]
pub extern "C" fn jsonnet_make() -> *mut JsonnetVm {
    Box::into_raw(Box::new(JsonnetVm { import: None, external: Vec::new(), top_level: Vec::new() }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn jsonnet_destroy(vm: *mut JsonnetVm) {
    drop(unsafe { Box::from_raw(vm) });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn jsonnet_realloc(_: *mut JsonnetVm, buffer: *mut c_char, size: usize) -> *mut c_char {
    if size == 0 {
        unsafe { free(buffer.cast()) };
        return ptr::null_mut();
    }
    there(unsafe { realloc(buffer.cast(), size) }).cast()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn jsonnet_import_callback(vm: *mut JsonnetVm, callback: ImportCallback, context: *mut c_void) {
    unsafe { (*vm).import = Some((callback, context)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn jsonnet_ext_var(vm: *mut JsonnetVm, name: *const c_char, value: *const c_char) {
    unsafe { give(&mut (*vm).external, name, value, false) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn jsonnet_ext_code(vm: *mut JsonnetVm, name: *const c_char, code: *const c_char) {
    unsafe { give(&mut (*vm).external, name, code, true) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn jsonnet_tla_var(vm: *mut JsonnetVm, name: *const c_char, value: *const c_char) {
    unsafe { give(&mut (*vm).top_level, name, value, false) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn jsonnet_tla_code(vm: *mut JsonnetVm, name: *const c_char, code: *const c_char) {
    unsafe { give(&mut (*vm).top_level, name, code, true) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn jsonnet_evaluate_snippet(
    vm: *mut JsonnetVm,
    name: *const c_char,
    code: *const c_char,
    failed: *mut c_int,
) -> *mut c_char {
    let (name, code) = unsafe { (text(name), text(code)) };
    let (answer, has_failed) = match evaluate::evaluate(unsafe { &*vm }, &name, &code) {
        Ok(json) => (json, 0),
        Err(account) => (account.replace('\0', "\\u0000"), 1), // a NUL byte would end the C string
    };
    unsafe { *failed = has_failed };
    // The answer is not copied, because it may take a tenth of all memory. The caller can free the answer with free(),
    // because Rust's System allocator uses malloc() on Unix.
    let mut bytes = ManuallyDrop::new(answer.into_bytes());
    bytes.push(0);
    bytes.as_mut_ptr().cast()
}

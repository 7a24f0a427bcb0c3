// The C plug-in in Rust: the same table, laid out by #[repr(C)].
//
//   rustc --edition 2021 -O --crate-type cdylib -o l2norm.so ci/examples/plugin/l2norm.rs
//   parity run --plugin ./l2norm.so
use std::ffi::{c_char, c_void, CStr};
use std::ptr::null;

#[repr(C)]
struct Device(i32, i32);
#[repr(C)]
struct DataType(u8, u8, u16);
#[repr(C)]
struct DlTensor {
    data: *mut c_void,
    device: Device,
    ndim: i32,
    dtype: DataType,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}
#[repr(C)]
struct Tensor {
    name: *const c_char,
    dtype: *const c_char,
    dl: DlTensor,
}
#[repr(C)]
struct Size {
    name: *const c_char,
    extent: i64,
    parts: *const i64,
    n_parts: usize,
}
#[repr(C)]
struct Opt {
    name: *const c_char,
    value: *const c_char,
}
#[repr(C)]
struct Case {
    id: *const c_char,
    op: *const c_char,
    dtype: *const c_char,
    fill: *const c_char,
    seed: u64,
    sizes: *const Size,
    n_sizes: usize,
    options: *const Opt,
    n_options: usize,
}
#[repr(C)]
struct Launch {
    problem: *const Case,
    inputs: *const Tensor,
    n_inputs: usize,
    outputs: *const Tensor,
    n_outputs: usize,
    threads: i32,
    stream: *mut c_void,
    fault: *const c_char,
}
type Run = extern "C" fn(*const Launch) -> *const c_char;
#[repr(C)]
struct Kernel {
    op: *const c_char,
    name: *const c_char,
    what: *const c_char,
    needs: *const c_char,
    contract: *const c_char,
    accumulate: *const c_char,
    chunk: i64,
    roundings: *const c_void,
    n_roundings: usize,
    nondeterministic: i32,
    dtypes: *const *const c_char,
    invariant: *const *const c_char,
    faults: *const c_void,
    n_faults: usize,
    supports: Option<extern "C" fn(*const Case) -> *const c_char>,
    forward: Option<Run>,
    backward: Option<Run>,
}
#[repr(C)]
pub struct Plugin {
    version: u32,
    kernel_bytes: u32,
    name: *const c_char,
    kernels: *const Kernel,
    n_kernels: usize,
}
struct Shared<T>(T);
unsafe impl<T> Sync for Shared<T> {}

unsafe fn text<'a>(words: *const c_char) -> &'a str {
    CStr::from_ptr(words).to_str().unwrap_or("")
}
unsafe fn find(tensors: *const Tensor, n: usize, name: &str) -> *mut f32 {
    let all = std::slice::from_raw_parts(tensors, n);
    all.iter().find(|t| text(t.name) == name).map_or(std::ptr::null_mut(), |t| t.dl.data.cast())
}

extern "C" fn forward(launch: *const Launch) -> *const c_char {
    unsafe {
        let l = &*launch;
        let case = &*l.problem;
        let sizes = std::slice::from_raw_parts(case.sizes, case.n_sizes);
        let extent = |name: &str| {
            sizes.iter().find(|s| text(s.name) == name).map_or(0, |s| s.extent as usize)
        };
        let mut eps = 1e-6f32;
        if case.n_options > 0 {
            for option in std::slice::from_raw_parts(case.options, case.n_options) {
                if text(option.name) == "eps" {
                    eps = text(option.value).parse().unwrap_or(eps);
                }
            }
        }
        let (n, d) = (extent("N"), extent("D"));
        let x = std::slice::from_raw_parts(find(l.inputs, l.n_inputs, "x"), n * d);
        let y = std::slice::from_raw_parts_mut(find(l.outputs, l.n_outputs, "y"), n * d);
        for (x_row, y_row) in x.chunks(d).zip(y.chunks_mut(d)) {
            let r = 1.0 / (x_row.iter().map(|v| v * v).sum::<f32>() + eps).sqrt();
            y_row.iter_mut().zip(x_row).for_each(|(out, v)| *out = v * r);
        }
    }
    null()
}

static DTYPES: Shared<[*const c_char; 2]> = Shared([c"f32".as_ptr(), null()]);
static KERNEL: Shared<Kernel> = Shared(Kernel {
    op: c"l2norm".as_ptr(),
    name: c"l2norm.plugin_rust".as_ptr(),
    what: c"rows one by one, in Rust".as_ptr(),
    needs: null(),
    contract: null(),
    accumulate: null(),
    chunk: 0,
    roundings: null(),
    n_roundings: 0,
    nondeterministic: 0,
    dtypes: &DTYPES.0 as *const _,
    invariant: null(),
    faults: null(),
    n_faults: 0,
    supports: None,
    forward: Some(forward),
    backward: None,
});
static PLUGIN: Shared<Plugin> = Shared(Plugin {
    version: 1,
    kernel_bytes: std::mem::size_of::<Kernel>() as u32,
    name: c"example in Rust".as_ptr(),
    kernels: &KERNEL.0,
    n_kernels: 1,
});

#[no_mangle]
pub extern "C" fn parity_plugin_kernels() -> *const Plugin {
    &PLUGIN.0
}

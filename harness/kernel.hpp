// All that a kernel file includes, .cpp or .cu (std only): what a kernel is, how it is called, how
// it registers.
//
//   const Register kernel{KernelDef{.op = "softmax", .name = "softmax.online_f32", .forward =
//   forward}};
//
// A kernel is launched in a child process. Its outputs, saved tensors and workspace arrive poisoned
// (NaN patterns) with canaries on both sides; inputs are digested before and after, saved tensors
// between forward and backward.
#pragma once

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/bound.hpp"
#include "harness/case.hpp"
#include "harness/tensor.hpp"

namespace parity {

// A tensor in the harness's memory: dense, row-major, 64-byte aligned.
struct TensorView {
  const TensorSpec* spec = nullptr;
  std::byte* data = nullptr;
};

struct Launch {
  const Case& problem;
  const Options& options;                   // the kernel's own ("chunk")
  std::span<const TensorView> inputs = {};  // with the cotangents, in the backward
  std::span<const TensorView> outputs =
      {};  // those of the direction: outputs and states, or gradients
  std::span<const TensorView> saved = {};  // written by forward, read by backward
  std::span<std::byte> workspace = {};
  int threads = 1;
  std::string_view fault = {};  // the fault switched on; empty: none. Read in outer loops only
  void* stream = nullptr;       // cudaStream_t of a GPU kernel

  // Null where the case has no such tensor. T must have the storage's width.
  template <class T>
  const T* in(std::string_view name) const {
    return static_cast<const T*>(static_cast<const void*>(find(inputs, name)));
  }
  template <class T>
  T* out(std::string_view name) const {
    return static_cast<T*>(static_cast<void*>(find(outputs, name)));
  }
  template <class T>
  T* save(std::string_view name) const {
    return static_cast<T*>(static_cast<void*>(find(saved, name)));
  }

 private:
  static std::byte* find(std::span<const TensorView> views, std::string_view name) {
    for (const TensorView& view : views)
      if (view.spec->name == name) return view.data;
    return nullptr;
  }
};

// A defect that can be switched on, of the catalogue or of our own.
struct FaultDef {
  std::string_view id =
      {};  // catalogue id ("F-12"; where two exist the A- id), or "P-..." for our own
  std::string_view alias = {};        // its other catalogue id
  std::string_view what = {};         // one sentence
  std::string_view unsupported = {};  // why it cannot be shown here; empty: it can
};

struct Variant {
  Options options = {};
  Lane lane = Lane::Full;
};

struct KernelDef {
  std::string_view op = {};
  std::string_view name = {};         // "<op>.<variant>"
  std::string_view what = {};         // accumulation, order of reduction, alignment, tails
  std::string_view needs = {};        // "", "avx2", "avx512", "sm_90", "sm_100"
  std::string_view environment = {};  // "", or "torch": runs in the worker that has loaded LibTorch
  Contract contract = {};
  std::vector<Variant> variants = {
      {}};  // the first is the default and runs in every lane of a case
  // Why it does not take this case; "" = it does. Dtypes outside the contract are refused before
  // this is asked.
  std::string (*refuses)(const Case&, const Options&) = nullptr;
  std::vector<TensorSpec> (*saved)(const Case&, const Options&) = nullptr;
  std::size_t (*workspace)(const Case&, const Options&, Direction) = nullptr;  // bytes
  void (*forward)(const Launch&) = nullptr;
  void (*backward)(const Launch&) = nullptr;  // null: forward only
  std::vector<FaultDef> faults = {};          // each becomes the mutant <name>!<id>
  std::source_location where = std::source_location::current();
};

struct OpDef;
struct ChainDef;
struct Waiver;
struct Explanation;

// Adds one definition to the registry of the hub. An object at namespace scope, the last lines of
// its file.
class Register {
 public:
  explicit Register(KernelDef);
  explicit Register(OpDef);
  explicit Register(CaseSet);
  explicit Register(BoundDef);
  explicit Register(ChainDef);
  explicit Register(Waiver);
  explicit Register(Explanation);
};

}  // namespace parity

// Tensors -> Observed: one kernel, forward and backward, in guarded memory.
#include "harness/launch.hpp"

#include <algorithm>
#include <cfenv>
#include <chrono>
#include <cstring>
#include <fmt/format.h>
#include <optional>

#include "harness/cuda/device_memory.hpp"
#include "harness/cuda/launched.hpp"
#include "harness/failure.hpp"
#include "harness/guard.hpp"
#include "harness/source.hpp"

namespace parity {
namespace {

struct GuardedTensor {
  TensorSpec spec;
  GuardedBuffer buffer;
  explicit GuardedTensor(TensorSpec s)
      : spec(std::move(s)), buffer(spec.dtype, bytes_for(spec.dtype, elements(spec.dims))) {}
  std::string called() const { return fmt::format("{} '{}'", name(spec.role), spec.name); }
};

// Where one call of a kernel finds its memory: the guarded buffers themselves, or images of them on
// the device, canaries and all. What the kernel did to an image comes back with fetch(), so that
// host and device kernels are inspected alike.
class Places {
 public:
  explicit Places(DeviceStream* device) : device_(device) {}

  std::byte* of(GuardedBuffer& buffer) {
    if (!device_) return buffer.payload().data();
    Image& image = images_.emplace_back(&buffer, DeviceMemory(buffer.whole().size()));
    device_->upload(buffer.whole(), image.second);
    return image.second.data() + kCanaryBytes;
  }
  void fetch() {
    for (const auto& [buffer, image] : images_) device_->download(image, buffer->whole());
  }

 private:
  using Image = std::pair<GuardedBuffer*, DeviceMemory>;
  DeviceStream* device_;  // null: the kernel runs here
  std::vector<Image> images_ = {};
};

class Arena {
 public:
  Arena(const KernelDef& kernel, const Options& options, std::string_view fault,
        const RunRequest& request)
      : kernel_(kernel), options_(options), fault_(fault), request_(request) {
    const OpDef& op = registry().op_or_throw(request.problem.op);
    backward_ = request.direction != Direction::Forward;
    if (backward_ && !kernel.backward)
      throw Failure(fmt::format("{} has no backward", kernel.name));
    // A backward without saved tensors does not need its forward.
    forward_ = request.direction != Direction::Backward || kernel.saved != nullptr;
    if (runs_on_device(kernel)) stream_.emplace();
    for (const Tensor& t : request.inputs.list()) inputs_.emplace_back(t.spec);
    for (const TensorSpec& spec : op.outputs(request.problem)) {
      const bool gradient = spec.role == Role::Gradient;
      if (gradient ? backward_ : forward_) (gradient ? gradients_ : outputs_).emplace_back(spec);
    }
    if (kernel.saved)
      for (TensorSpec& spec : kernel.saved(request.problem, options))
        saved_.emplace_back(std::move(spec));
    restore_inputs();
  }

  Observed run() {
    Observed observed;
    take_launched();
    launch(observed, 0);
    observed.device_kernels = take_launched();
    for (std::vector<GuardedTensor>* list : {&outputs_, &gradients_})
      for (const GuardedTensor& t : *list) {
        if (!answers(t.spec.role, request_.direction)) continue;  // the forward of a backward
        observed.tensors.add({t.spec, {t.buffer.payload().begin(), t.buffer.payload().end()}});
        const ExpectedTensor* expected =
            request_.expected ? request_.expected->find(t.spec.name) : nullptr;
        unwritten_.emplace_back(t.spec, t.buffer.payload(), 0,
                                expected ? std::span<const std::uint8_t>(expected->ignore)
                                         : std::span<const std::uint8_t>());
        tracked_.push_back(&t);
      }
    for (int which = 1; which < kPoisons && ambiguous(); ++which) {
      Observed again;  // its complaints are those of the first launch
      launch(again, which);
      for (std::size_t i = 0; i < tracked_.size(); ++i)
        if (!poison_is_unmistakable(tracked_[i]->spec.dtype))
          unwritten_[i].narrow(tracked_[i]->buffer.payload(), which);
    }
    for (const Unwritten& u : unwritten_) {
      observed.unwritten += u.bytes();
      if (!u.empty()) observed.complaints.push_back(u.sentence());
    }
    if (stream_) DeviceStream::finish();  // a kernel on a stream of its own may still fail
    return observed;
  }

 private:
  bool ambiguous() const {
    for (std::size_t i = 0; i < tracked_.size(); ++i)
      if (!poison_is_unmistakable(tracked_[i]->spec.dtype) && !unwritten_[i].empty()) return true;
    return false;
  }

  void restore_inputs() {
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const std::vector<std::byte>& from = request_.inputs.list()[i].bytes;
      const std::span<std::byte> to = inputs_[i].buffer.payload();
      if (from.size() != to.size())
        throw Failure(fmt::format("{} holds {} bytes where its shape needs {}", inputs_[i].called(),
                                  from.size(), to.size()));
      if (!from.empty()) std::memcpy(to.data(), from.data(), from.size());
    }
  }

  void launch(Observed& observed, int which) {
    for (std::vector<GuardedTensor>* list : {&outputs_, &gradients_, &saved_})
      for (GuardedTensor& t : *list) t.buffer.poison(which);
    if (forward_) {
      call(observed, Direction::Forward, kernel_.forward);
      inspect(observed, "forward");
    }
    if (!backward_) return;
    std::vector<std::vector<std::byte>> before;
    for (const GuardedTensor& t : saved_)
      before.emplace_back(t.buffer.payload().begin(), t.buffer.payload().end());
    call(observed, Direction::Backward, kernel_.backward);
    inspect(observed, "backward");
    for (std::size_t i = 0; i < saved_.size(); ++i)
      if (const auto at = first_difference(before[i], saved_[i].buffer.payload()); at >= 0) {
        observed.saved_unchanged = false;
        observed.complaints.push_back(
            fmt::format("backward changed saved tensor '{}' at {}", saved_[i].spec.name,
                        place(saved_[i].spec, static_cast<std::size_t>(at))));
      }
  }

  void call(Observed& observed, Direction direction, void (*function)(const Launch&)) {
    const bool backward = direction == Direction::Backward;
    Places places(stream_ ? &*stream_ : nullptr);
    std::vector<TensorView> in, out, save;
    for (GuardedTensor& t : inputs_)
      if (backward || t.spec.role != Role::Cotangent) in.push_back({&t.spec, places.of(t.buffer)});
    for (GuardedTensor& t : backward ? gradients_ : outputs_)
      out.push_back({&t.spec, places.of(t.buffer)});
    for (GuardedTensor& t : saved_) save.push_back({&t.spec, places.of(t.buffer)});
    GuardedBuffer workspace(
        Dtype::F32,
        kernel_.workspace ? kernel_.workspace(request_.problem, options_, direction) : 0);
    workspace.poison(0);
    const Launch arguments{.problem = request_.problem,
                           .options = options_,
                           .inputs = in,
                           .outputs = out,
                           .saved = save,
                           .workspace = {places.of(workspace), workspace.payload().size()},
                           .threads = request_.threads,
                           .fault = fault_,
                           .stream = stream_ ? stream_->handle() : nullptr};
    std::fenv_t environment;
    std::fegetenv(&environment);  // a kernel may flush subnormals; what follows must not
    try {
      observed.kernel_ms += timed([&] { function(arguments); });
      places.fetch();
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const DeviceError&) {
      throw;
    } catch (const Unsupported&) {
      throw;
    } catch (const LaunchError&) {
      throw;
    } catch (const std::exception& e) {
      throw LaunchError(fmt::format("the kernel's {} threw: {}", name(direction), e.what()));
    } catch (...) {
      throw LaunchError(
          fmt::format("the kernel's {} threw something that is no exception", name(direction)));
    }
    std::fesetenv(&environment);
    if (const std::string broken = workspace.broken_canary(); !broken.empty()) {
      observed.canaries_whole = false;
      observed.complaints.push_back(
          fmt::format("{} wrote outside its workspace: {}", name(direction), broken));
    }
  }

  // Milliseconds: of the host, or between events of the stream.
  template <class Function>
  double timed(const Function& function) {
    if (stream_) {
      stream_->start();
      function();
      return stream_->stop();
    }
    const auto start = std::chrono::steady_clock::now();
    function();
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    return took.count();
  }

  // Canaries and inputs after a call; what was damaged is mended, so that each damage is told once.
  void inspect(Observed& observed, std::string_view direction) {
    for (std::vector<GuardedTensor>* list : {&inputs_, &outputs_, &gradients_, &saved_})
      for (GuardedTensor& t : *list)
        if (const std::string broken = t.buffer.broken_canary(); !broken.empty()) {
          observed.canaries_whole = false;
          observed.complaints.push_back(
              fmt::format("{} wrote outside {}: {}", direction, t.called(), broken));
          t.buffer.repair_canaries();
        }
    bool changed = false;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const auto at =
          first_difference(request_.inputs.list()[i].bytes, inputs_[i].buffer.payload());
      if (at < 0) continue;
      changed = true;
      observed.complaints.push_back(
          fmt::format("{} changed {} at {}", direction, inputs_[i].called(),
                      place(inputs_[i].spec, static_cast<std::size_t>(at))));
    }
    if (!changed) return;
    observed.inputs_unchanged = false;
    restore_inputs();
  }

  const KernelDef& kernel_;
  const Options& options_;
  std::string_view fault_;
  const RunRequest& request_;
  bool forward_ = true, backward_ = false;
  std::optional<DeviceStream> stream_ = {};  // of a GPU kernel
  std::vector<GuardedTensor> inputs_ = {}, outputs_ = {}, gradients_ = {}, saved_ = {};
  std::vector<Unwritten> unwritten_ = {};
  std::vector<const GuardedTensor*> tracked_ = {};
};

std::string why_not(const KernelDef& kernel, const Options& options, const Case& problem) {
  const std::vector<Dtype>& takes = kernel.contract.dtypes;
  if (!takes.empty() && std::ranges::find(takes, problem.dtype) == takes.end()) {
    std::string list;
    for (const Dtype d : takes) list += (list.empty() ? "" : ", ") + std::string(name(d));
    return fmt::format("takes {}, not {}", list, name(problem.dtype));
  }
  if (std::string missing = missing_capability(kernel.needs); !missing.empty()) return missing;
  return kernel.refuses ? kernel.refuses(problem, options) : "";
}

}  // namespace

bool runs_on_device(const KernelDef& kernel) { return kernel.needs.starts_with("sm_"); }

Candidate candidate_of(const KernelDef& kernel, const Options& options, const Case& problem,
                       std::string_view fault) {
  Candidate c{.name = std::string(kernel.name),
              .options = options,
              .contract = kernel.contract,
              .fault = std::string(fault),
              .unsupported = why_not(kernel, options, problem),
              .environment = std::string(kernel.environment),
              // The arithmetic of a GPU that a CPU emulates: its own target did not execute it.
              .hw_verified = (!kernel.contract.name.starts_with("sm_") &&
                              !kernel.contract.name.ends_with("model only")) ||
                             kernel.needs.starts_with("sm_"),
              .backward = kernel.backward != nullptr,
              .kernel = &kernel};
  c.contract.chunk = options.integer("chunk", c.contract.chunk);
  if (kernel.forward)
    c.run = [&kernel, options, fault = std::string(fault)](const RunRequest& request) {
      return Arena(kernel, options, fault, request).run();
    };
  return c;
}

}  // namespace parity

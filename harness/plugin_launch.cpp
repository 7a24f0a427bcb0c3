#include "harness/plugin_launch.hpp"

#include <deque>
#include <fmt/format.h>

#include "harness/launch.hpp"

namespace parity {
namespace {

// DLDataTypeCode of DLPack 1.1.
std::uint8_t dlpack_code(Dtype dtype) {
  switch (dtype) {
    case Dtype::F64:
    case Dtype::F32:
    case Dtype::TF32:
    case Dtype::F16:
      return 2;
    case Dtype::BF16:
      return 4;
    case Dtype::E4M3:
      return 10;
    case Dtype::E5M2:
      return 12;
    case Dtype::E8M0:
      return 14;
    case Dtype::E2M3:
      return 15;
    case Dtype::E3M2:
      return 16;
    case Dtype::E2M1:
      return 17;
    case Dtype::I64:
    case Dtype::I32:
    case Dtype::I16:
    case Dtype::I8:
      return 0;
    case Dtype::U8:
      return 1;
    case Dtype::Bool:
      return 6;
  }
  return 0;
}

// Tensors and what their fields point to.
class TensorList {
 public:
  TensorList(std::span<const TensorView> views, bool on_device) {
    for (const TensorView& view : views) {
      std::vector<std::int64_t>& shape = shapes_.emplace_back();
      for (const Dim& dim : view.spec->dims) shape.push_back(dim.extent);
      const Dtype dtype = view.spec->dtype;
      const auto bits = static_cast<std::uint8_t>(dtype == Dtype::Bool ? 8 : format(dtype).bits);
      list_.push_back({.name = view.spec->name.c_str(),
                       .dtype = name(dtype).data(),
                       .dl = {.data = view.data,
                              .device = {on_device ? 2 : 1, 0},
                              .ndim = static_cast<std::int32_t>(shape.size()),
                              .dtype = {dlpack_code(dtype), bits, 1},
                              .shape = shape.data(),
                              .strides = nullptr,
                              .byte_offset = 0}});
    }
  }
  const parity_tensor* data() const { return list_.data(); }
  std::size_t size() const { return list_.size(); }

 private:
  std::deque<std::vector<std::int64_t>> shapes_ = {};
  std::vector<parity_tensor> list_ = {};
};

}  // namespace

void launch_plugin(const parity_kernel& kernel, const Launch& l, Direction direction) {
  const std::string id = l.problem.id(), fault(l.fault);
  std::vector<parity_size> sizes;
  for (const Size& size : l.problem.sizes.list())
    sizes.push_back({size.name.c_str(), size.extent, size.parts.data(), size.parts.size()});
  std::vector<parity_option> options;
  for (const auto& [option, value] : l.problem.options.map())
    options.push_back({option.c_str(), value.c_str()});
  const parity_case problem{.id = id.c_str(),
                            .op = l.problem.op.c_str(),
                            .dtype = name(l.problem.dtype).data(),
                            .fill = l.problem.fill.c_str(),
                            .seed = l.problem.seed,
                            .sizes = sizes.data(),
                            .n_sizes = sizes.size(),
                            .options = options.data(),
                            .n_options = options.size()};
  if (kernel.supports)
    if (const char* why = kernel.supports(&problem))
      throw Unsupported(*why ? why : "supports() of the plug-in says no, and no reason");
  const bool on_device = l.stream != nullptr;
  const TensorList inputs(l.inputs, on_device), outputs(l.outputs, on_device);
  const parity_launch launch{.problem = &problem,
                             .inputs = inputs.data(),
                             .n_inputs = inputs.size(),
                             .outputs = outputs.data(),
                             .n_outputs = outputs.size(),
                             .threads = l.threads,
                             .stream = l.stream,
                             .fault = fault.c_str()};
  const auto function = direction == Direction::Backward ? kernel.backward : kernel.forward;
  if (const char* why = function(&launch))
    throw LaunchError(fmt::format("the kernel's {} took the case and then failed: {}",
                                  name(direction), *why ? why : "it gives no reason"));
}

}  // namespace parity

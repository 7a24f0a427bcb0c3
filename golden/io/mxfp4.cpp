#include "golden/io/mxfp4.hpp"

#include <bit>
#include <memory>

#include "harness/failure.hpp"
#include "harness/numeric/formats.hpp"

namespace parity::io {
namespace {

constexpr std::int64_t kGroup = 32;  // elements under one scale
constexpr std::string_view kPacked = ".weight_packed", kScale = ".weight_scale";

struct Source {
  std::size_t codes = 0;  // or the tensor itself, where it is not packed
  std::size_t scales = 0;
  bool packed = false;
};

bool is_byte(Dtype dtype) {
  return dtype == Dtype::U8 || dtype == Dtype::E8M0 || dtype == Dtype::E2M1;
}

TensorInfo unpacked(const TensorFile& file, const TensorInfo& codes, const TensorInfo& scales,
                    const std::string& name) {
  const std::string where = file.path().string() + ": '" + name + "'";
  TensorInfo whole{.name = name, .dtype = Dtype::BF16, .stored = "MXFP4", .shape = codes.shape};
  if (!is_byte(codes.dtype) || !is_byte(scales.dtype))
    throw UsageError(where + ": MXFP4 is stored in bytes");
  if (whole.shape.empty() || scales.shape.size() != whole.shape.size())
    throw UsageError(where + ": codes and scales have different ranks");
  if (codes.dtype != Dtype::E2M1) whole.shape.back() *= 2;
  std::vector<std::int64_t> groups = whole.shape;
  groups.back() /= kGroup;
  if (whole.shape.back() % kGroup != 0 || groups != scales.shape)
    throw UsageError(where + ": needs one scale for 32 elements of a row");
  measure(whole, where);
  return whole;
}

// Elements [first, first + count), first a multiple of 32, as bf16.
void unpack(const TensorFile& file, const Source& source, std::int64_t first,
            std::span<std::uint16_t> out) {
  const auto count = static_cast<std::int64_t>(out.size());
  std::vector<std::byte> codes(static_cast<std::size_t>((count + 1) / 2)),
      scales(static_cast<std::size_t>((count + kGroup - 1) / kGroup));
  file.read(source.codes, first / 2, codes);
  file.read(source.scales, first / kGroup, scales);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const float scale = float_from_e8m0(
        std::to_integer<std::uint8_t>(scales[i / static_cast<std::size_t>(kGroup)]));
    const auto pair = std::to_integer<unsigned>(codes[i / 2]);
    const float value =
        float_from_e2m1(static_cast<std::uint8_t>(i % 2 ? pair >> 4 : pair & 15)) * scale;
    const auto bits = std::bit_cast<std::uint32_t>(value);
    if ((bits & 0x7F800000u) == 0x7F800000u)
      throw UsageError(file.path().string() + ": '" + file.tensors()[source.scales].name +
                       "' makes element " + std::to_string(first + static_cast<std::int64_t>(i)) +
                       " no finite bf16");
    out[i] = static_cast<std::uint16_t>(bits >> 16);  // exact: two significant bits
  }
}

}  // namespace

bool holds_mxfp4(const TensorFile& file) {
  for (const TensorInfo& tensor : file.tensors())
    if (tensor.name.ends_with(kPacked)) return true;
  return false;
}

TensorFile dequantised(TensorFile file) {
  std::vector<TensorInfo> tensors;
  std::vector<Source> sources;
  for (std::size_t i = 0; i < file.tensors().size(); ++i) {
    const TensorInfo& tensor = file.tensors()[i];
    const bool packed = tensor.name.ends_with(kPacked), scale = tensor.name.ends_with(kScale);
    const std::string module = tensor.name.substr(0, tensor.name.size() - (packed  ? kPacked
                                                                           : scale ? kScale
                                                                                   : "")
                                                                              .size());
    if (!packed && (!scale || !file.find(module + std::string(kPacked)))) {
      tensors.push_back(tensor);
      sources.push_back({.codes = i});
    } else if (packed) {
      const std::size_t* at = file.find(module + std::string(kScale));
      if (!at) throw UsageError(file.path().string() + ": '" + tensor.name + "' has no scales");
      tensors.push_back(unpacked(file, tensor, file.tensors()[*at], module + ".weight"));
      sources.push_back({.codes = i, .scales = *at, .packed = true});
    }
  }
  const fs::path path = file.path();
  Metadata metadata = file.metadata();
  auto shared = std::make_shared<const TensorFile>(std::move(file));
  return {path, std::move(tensors), std::move(metadata),
          [shared, sources = std::move(sources)](std::size_t tensor, std::int64_t first,
                                                 std::span<std::byte> out) {
            const Source& source = sources[tensor];
            if (!source.packed) return shared->read(source.codes, first, out);
            // Whole groups around the range, then the range.
            const std::int64_t begin = first / 2 / kGroup * kGroup;
            const auto end = first + static_cast<std::int64_t>(out.size());
            std::vector<std::uint16_t> values(static_cast<std::size_t>((end + 1) / 2 - begin));
            unpack(*shared, source, begin, values);
            const auto bytes = std::as_bytes(std::span(values));
            std::copy_n(bytes.begin() + (first - 2 * begin), out.size(), out.begin());
          }};
}

}  // namespace parity::io

// torchao's integer fake quantisers of QAT, by configuration:
//   config=int4_g32_sym      BITS, group (gN), channel, token or tensor, sym or asym; "uint" for an
//                            unsigned range; _inputscale: scales in the data's dtype, else f32
//   config=cachemask         int4 symmetric groups of 32 in f32, scale at least 1e-9; forms its
//                            mask after the clamp, so that all of it is one
// An asymmetric group takes scale and zero point of tinygemm for [0, 2^bits - 1] and truncates the
// float zero point to an integer; everything else follows the table of affine.hpp.
#include <cmath>

#include "harness/failure.hpp"
#include "harness/text.hpp"
#include "references/integer/tensors.hpp"

namespace parity::integer {
namespace {

struct Config {
  bool cachemask = false;
  bool asymmetric = false;
  bool grouped = false;  // gN
  bool input_scale = false;
  bool is_unsigned = false;
  int bits = 4;
  std::string block = "1x0";
};

Config config_of(const Case& c) {
  const std::string text = c.options.get("config", "int4_g32_sym");
  Config config;
  if (text == "cachemask") {
    config.cachemask = true;
    config.block = "1x32";
    return config;
  }
  std::vector<std::string> parts = {""};
  for (const char letter : text) letter == '_' ? parts.emplace_back() : parts.back() += letter;
  const auto unknown = [&] {
    return UsageError("config=" + text + " is not like int4_g32_sym, int8_token_asym or cachemask");
  };
  if (parts.size() < 3 || parts.size() > 4) throw unknown();
  config.is_unsigned = parts[0].starts_with("uint");
  const std::string bits = parts[0].substr(config.is_unsigned ? 4 : 3);
  if (!parts[0].starts_with(config.is_unsigned ? "uint" : "int") || bits.empty()) throw unknown();
  config.bits = static_cast<int>(to_integer(bits, "bits of " + text));
  if (config.bits < 1 || config.bits > 8) throw unknown();
  if (parts[1].starts_with("g") && parts[1].size() > 1) {
    config.grouped = true;
    config.block = "1x" + parts[1].substr(1);
  } else if (parts[1] == "tensor") {
    config.block = "0x0";
  } else if (parts[1] != "channel" && parts[1] != "token") {
    throw unknown();
  }
  if (parts[2] != "sym" && parts[2] != "asym") throw unknown();
  config.asymmetric = parts[2] == "asym";
  if (parts.size() == 4 && parts[3] != "inputscale") throw unknown();
  config.input_scale = parts.size() == 4;
  return config;
}

Affine parameters(const Case& c, std::string_view fault) {
  const Config config = config_of(c);
  Case with_block = c;
  with_block.options.set("block", config.block);
  with_block.options.set("scale", config.input_scale ? name(c.dtype) : "f32");
  Affine a = affine_of(with_block, fault);
  a.mapping = config.asymmetric ? Mapping::Asymmetric : Mapping::Symmetric;
  a.qmin = config.is_unsigned ? 0 : -(1 << (config.bits - 1));
  a.qmax = config.is_unsigned ? (1 << config.bits) - 1 : (1 << (config.bits - 1)) - 1;
  if (config.cachemask) {
    a.eps = 1e-9F;
    if (a.defect == Defect::None) {
      a.defect = Defect::MaskAfterClamp;
    } else if (a.defect == Defect::MaskAfterClamp) {
      a.defect = Defect::None;
    }
  }
  return a;
}

std::vector<Group> groups_by(const Config& config, const Affine& a, const Matrix& x) {
  Affine of_scale = a;
  if (config.cachemask) of_scale.data = Dtype::F32;  // its scales never see bf16
  if (!config.asymmetric || !config.grouped) return choose_all(of_scale, x);
  of_scale.mapping = Mapping::Tinygemm;
  of_scale.qmin = 0;
  of_scale.qmax = (1 << config.bits) - 1;
  of_scale.eps = 1e-6F;
  std::vector<Group> groups = choose_all(of_scale, x);
  for (Group& g : groups) {
    g.open = !std::isfinite(g.zero);
    g.zero = a.defect == Defect::ZeroRounded ? std::nearbyint(g.zero) : std::trunc(g.zero);
  }
  return groups;
}

std::vector<TensorSpec> inputs(const Case& c) {
  std::vector<TensorSpec> specs = {
      matrix_spec("x", Role::Input, c.dtype, rows_of(c), columns_of(c))};
  if (!config_of(c).cachemask)
    specs.push_back(
        matrix_spec("cotangents/fake_quant", Role::Cotangent, c.dtype, rows_of(c), columns_of(c)));
  return specs;
}

std::vector<TensorSpec> outputs(const Case& c) {
  const Affine a = parameters(c, "");
  const std::int64_t rows = rows_of(c), columns = columns_of(c), groups = groups_of(c, a);
  std::vector<TensorSpec> specs = {matrix_spec("fake_quant", Role::Output, c.dtype, rows, columns),
                                   group_spec("scale", Role::Scales, a.scale, groups)};
  if (config_of(c).cachemask) {
    specs.push_back(matrix_spec("mask", Role::Ids, Dtype::Bool, rows, columns));
    return specs;
  }
  specs.push_back(group_spec("zero_point", Role::Ids, Dtype::I32, groups));
  specs.push_back(matrix_spec("grads/x", Role::Gradient, c.dtype, rows, columns));
  return specs;
}

Expected quantize(const Case& c, const Tensors& tensors, std::string_view fault) {
  const Affine a = parameters(c, fault);
  const Matrix x = quantize::matrix_of(tensors.at("x"));
  if (const std::string why = refuses(a, x.rows, x.columns); !why.empty()) return {.refused = why};
  const Integers q = quantise(a, x, groups_by(config_of(c), a, x));
  Expected expected;
  for (const TensorSpec& spec : outputs(c)) {
    if (spec.role != Role::Gradient) {
      expected.tensors.push_back(affine_tensor(spec, q));
      continue;
    }
    const Tensor* cotangent = tensors.find("cotangents/fake_quant");
    if (cotangent == nullptr) continue;
    expected.tensors.push_back(
        chains::exact(spec, straight_through(a, x, q, floats_of(*cotangent)), q.open));
  }
  return expected;
}

void import(const StoredCase& stored, ImportedCase& imported) {
  Case& c = imported.problem;
  c.options.set("config", chains::attribute(stored, "config"));
  const auto& dims = imported.inputs.at("x").spec.dims;
  if (dims.size() != 2) throw GoldenError(stored.file + ": " + stored.name + ": x is no matrix");
  c.sizes.set({.name = "M", .extent = dims[0].extent});
  c.sizes.set({.name = "K", .extent = dims[1].extent});
  try {
    (void)config_of(c);
  } catch (const UsageError& e) {
    imported.unsupported = e.what();
  }
}

const Register chain{ChainDef{
    .name = "int_fake_quant",
    .what = "(clamp(round(x fl(1/s)) + zp) - zp) s; gradient m ((g s) fl(1/s))",
    .quantize = quantize,
    .outputs = outputs,
    .groups = {"int_torchao_fake_quant"},
    .faults =
        faults_of({Defect::Divided, Defect::HalfAway, Defect::Truncated, Defect::WideScale,
                   Defect::FullRange, Defect::ZeroExcluded, Defect::ZeroRounded, Defect::EpsMissing,
                   Defect::DequantExpanded, Defect::Wrapped, Defect::NeighbourGroup,
                   Defect::MaskMissing, Defect::MaskExclusive, Defect::MaskAfterClamp,
                   Defect::GradientPlain, Defect::GradientZero, Defect::GradientOfValue}),
    .inputs = inputs,
    .import = import,
}};

}  // namespace
}  // namespace parity::integer

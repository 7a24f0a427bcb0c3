#include "references/linear/recipe.hpp"

#include "harness/failure.hpp"

namespace parity::linear {

Extents extents(const Case& c) { return {c.sizes["M"], c.sizes["N"], c.sizes["K"]}; }

Dtype out_dtype(const Case& c) {
  return parse_dtype(c.options.get("out", std::string(name(c.dtype))));
}

Dtype gradient_dtype(const Case& c) {
  const Dtype out = out_dtype(c);
  return format(out).bits > 8 ? out : c.dtype;
}

const std::vector<Recipe>& recipes() {
  static const std::vector<Recipe> all = {nvfp4_te(),    nvfp4_qat(),     mx_qat(),
                                          fp8_torchao(), int8_training(), int4_weight(),
                                          nvfp4_weight()};
  return all;
}

const Recipe* recipe_of(const Case& c) {
  const std::string name = c.options.get("recipe", "");
  for (const Recipe& recipe : recipes())
    if (recipe.name == name) return &recipe;
  return nullptr;
}

const ExpectedTensor& Operand::part(std::string_view name) const {
  const ExpectedTensor* found = parts.find(name);
  if (found == nullptr) throw Failure("the chain gave no '" + std::string(name) + "'");
  return *found;
}

namespace {

Case quantize_case(const Options& options, Dtype dtype, std::int64_t rows, std::int64_t columns) {
  Case c;
  c.op = "quantize";
  c.dtype = dtype;
  c.fill = "operand";
  c.options = options;
  c.sizes.set({.name = "M", .extent = rows});
  c.sizes.set({.name = "K", .extent = columns});
  return c;
}

const ChainDef& chain_or_throw(const Options& options) {
  const std::string name = options.get("chain", "");
  const ChainDef* chain = registry().chain(name);
  if (chain == nullptr) throw Failure("no chain '" + name + "' is registered");
  return *chain;
}

}  // namespace

Operand run_chain(const Options& options, const Tensor& x, std::vector<Tensor> more) {
  const std::int64_t rows = x.spec.dims.at(0).extent, columns = x.spec.dims.at(1).extent;
  Tensors inputs;
  Tensor named = x;
  named.spec.name = "x";
  named.spec.role = Role::Input;
  named.spec.dims = {{"M", rows}, {"K", columns}};
  inputs.add(std::move(named));
  for (Tensor& t : more) inputs.add(std::move(t));
  const Case c = quantize_case(options, x.spec.dtype, rows, columns);
  Operand operand;
  operand.parts = chain_or_throw(options).quantize(c, inputs, "");
  operand.refused = operand.parts.refused;
  return operand;
}

std::vector<TensorSpec> chain_specs(const Options& options, Dtype dtype, std::int64_t rows,
                                    std::int64_t columns, std::string_view prefix,
                                    const std::vector<std::string_view>& names) {
  std::vector<TensorSpec> specs;
  for (TensorSpec& spec :
       chain_or_throw(options).outputs(quantize_case(options, dtype, rows, columns)))
    for (const std::string_view wanted : names)
      if (spec.name == wanted) {
        spec.name = "tap/" + std::string(prefix) + "_" + std::string(wanted);
        specs.push_back(spec);
        break;
      }
  return specs;
}

void add_taps(Plan& plan, const Operand& operand, std::string_view prefix,
              const std::vector<std::string_view>& names) {
  for (const std::string_view name : names) {
    ExpectedTensor t = operand.part(name);
    t.spec.name = "tap/" + std::string(prefix) + "_" + std::string(name);
    plan.taps.push_back(std::move(t));
  }
}

Tensor transposed(const Tensor& x) {
  const std::int64_t rows = x.spec.dims.at(0).extent, columns = x.spec.dims.at(1).extent;
  TensorSpec spec = x.spec;
  std::swap(spec.dims[0], spec.dims[1]);
  Tensor t = make_tensor(spec);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c)
      store_code(spec.dtype, t.bytes.data(), c * rows + r,
                 load_code(spec.dtype, x.bytes.data(), r * columns + c));
  return t;
}

Dense dense_of(const Tensor& x) {
  return {
      .rows = x.spec.dims.at(0).extent, .columns = x.spec.dims.at(1).extent, .values = x.widened()};
}

Dense dense_of(const ExpectedTensor& x) {
  return {.rows = x.spec.dims.at(0).extent, .columns = x.spec.dims.at(1).extent, .values = x.value};
}

Dense scaled_blocks(const ExpectedTensor& codes, const ExpectedTensor& scales, std::int64_t block,
                    bool neighbour) {
  Dense d = dense_of(codes);
  const std::int64_t blocks = scales.spec.dims.at(1).extent;
  for (std::int64_t r = 0; r < d.rows; ++r)
    for (std::int64_t c = 0; c < d.columns; ++c) {
      const std::int64_t b = (c / block + (neighbour ? 1 : 0)) % blocks;
      d.values[static_cast<std::size_t>(r * d.columns + c)] *=
          scales.value[static_cast<std::size_t>(r * blocks + b)];
    }
  return d;
}

}  // namespace parity::linear

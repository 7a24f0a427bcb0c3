// Exact probes of vision_tower: every block passes its input on (wo and fc1 are zero), so that what
// each norm sees is signs of one size. Attention is a mean over a power of two of patches, a GELU
// open or shut, and its gradients meet wo and fc1 all the same. Items have the grid of the table.
#include "cases/exact_rows.hpp"

namespace parity {
namespace {

constexpr double kLouder = 0x1p30;  // eps of bf16's norms is 2^-7, and must be lost in fp64 too

void passing(const RowDraw& d, std::span<double> out) {
  const std::string& name = d.spec.name;
  const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
  if (name.starts_with("cotangents/")) return exact::lone_sign(d, out);
  if (name == "pixels") return exact::signs(d, out);
  if (has("norm")) return exact::constant(out, 1);
  if (has("pos_emb") || has("wo.weight") || has("fc1.weight") || has("wq.weight") ||
      has("wk.weight"))
    return exact::constant(out, 0);
  if (has("patch_embed.proj")) return exact::pick_signed(d, out, kLouder);
  if (has("wqkv")) return exact::pick_signed(d, out, d.row / (d.spec.dims[0].extent / 3) == 2);
  if (has("fc0")) return exact::pick_signed(d, out, exact::kShut);
  if (has("proj.0")) {  // in pairs of either sign: an open and a shut GELU make a sign again
    exact::constant(out, 0);
    out[static_cast<std::size_t>(d.row / 2) % out.size()] =
        d.row % 2 == 0 ? exact::kShut : -exact::kShut;
  } else if (has("proj.2")) {
    exact::constant(out, 0);
    const std::size_t pair = static_cast<std::size_t>(2 * d.row) % out.size();
    out[pair] = exact::kShut, out[pair + 1] = -exact::kShut;
  } else {
    exact::pick_signed(d, out);  // wv
  }
}

const Register exact_tower{CaseSet{
    .op = "vision_tower",
    .what = "Blocks that pass their input on",
    .lane = Lane::Smoke,
    .check = Check::Exact,
    .sizes = {Sizes::parse("L2,D16,H2,Q16,F16,P2,M4,N2,O16"),
              Sizes::parse("L1,D16,H1,Q8,F8,P2,M4,N2,O16")},
    .dtypes = {Dtype::F32, Dtype::BF16, Dtype::F64},
    .fills = {{"passing", "orders, items and merges; gradients of what is passed by", passing,
               true}},
    .options =
        {{{"grids", "1x4x2+1x4x2+1x4x2"}},
         {{"grids", "1x4x2+1x4x2"}, {"layout", "padded"}, {"qkv", "split"}, {"eps", "1e-5"}}},
}};

}  // namespace
}  // namespace parity

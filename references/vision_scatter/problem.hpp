// vision_scatter: features of images among the embeddings of text (references/blocks/scatter.hpp).
// Sizes: B rows of T tokens, D width, V vocabulary, S slots a row after a merge.
//   form=runs (torchtitan)
//     in   tokens [B,T], counts [N], features [N, most of a count, D], embedding [V,D]
//     out  y [B,T,D]; positions [N,4]: item, row, first slot, number of slots
//   form=merge (the released code)
//     in   tokens, attention_mask, labels [B,T], feature<i> [count,D], embedding [V,D]
//     out  y [B,S,D], attention_mask, labels, position_ids [B,S]
//   gradients of features and of the embedding, whose row of the placeholder takes exactly zero
//   option counts       features of each image, "2+1+4"
//          layout       tokens of each row, "t1i2t2+p1i1t3": text, image placeholders, padding
//          image_id (7), pad_id (0; form=merge)
//          rightpad_bug=1  where the released code looks for images in rows padded on the right
#pragma once

#include <string>
#include <vector>

#include "harness/registry.hpp"

namespace parity::net::vision {

struct ScatterProblem {
  std::int64_t B = 0, T = 0, D = 0, V = 0, S = 0, image = 0, padding = 0;
  std::vector<std::int64_t> counts = {};
  bool merge = false, rightpad_bug = false;
  std::int64_t features() const;       // of all images
  std::int64_t most_features() const;  // of one
};
ScatterProblem scatter_problem_of(const Case&);

std::vector<TensorSpec> scatter_inputs(const Case&);
std::vector<TensorSpec> scatter_outputs(const Case&);
bool scatter_derive(const Case&, Tensor&);  // tokens, counts, attention_mask, labels
std::string scatter_refuses(const Case&);
ImportedCase scatter_import(const StoredCase&);

// Tokens by kind, one letter each: "tiit", "ptit". UsageError naming what cannot be read.
std::vector<std::string> parse_layout(const std::string& text);
std::string print_layout(const std::vector<std::string>& rows);

}  // namespace parity::net::vision

// The small K3 decoder (blocks/decoder.hpp) as a model of stages: embedding, an image branch that
// a rank may lack, each layer, the head with the loss. Every stage gets its weights when it runs
// and has them taken away afterwards, so that a weight which is stale, or was freed, shows.
//   option vision=F     the image branch: features of an image [C], a gated unit of width F, added
//   to
//                          the embeddings of the last token id
//          image_ranks=all|none|LIST of ranks;  text_rank=skip|dummy|zerodep: what the others do
//          tied=1       the head uses the embedding's table
#pragma once

#include <map>
#include <memory>

#include "harness/registry.hpp"
#include "references/fsdp/engine.hpp"

namespace parity::fsdp {

inline constexpr std::int64_t kImage = 6;  // channels of an image

Case decoder_case(const Case&);                         // of one rank and microbatch
std::vector<TensorSpec> model_parameters(const Case&);  // "params/<name>", f32
std::vector<UnitSpec> model_units(const Case&);
bool has_image(const Case&, int rank);

class DecoderModel {
 public:
  DecoderModel(const Case&, const Tensors&, int rank, std::string_view fault = {});
  ~DecoderModel();
  DecoderModel(const DecoderModel&) = delete;
  DecoderModel& operator=(const DecoderModel&) = delete;

  const Model& model() const { return model_; }
  const std::vector<float>& losses() const;  // by step and microbatch
  const std::vector<float>& logits() const;  // of the first microbatch

 private:
  struct State;
  std::unique_ptr<State> state_;
  Model model_ = {};
};

}  // namespace parity::fsdp

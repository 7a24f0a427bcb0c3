// One launch of an attention kernel: the tensors, the documents, and the tiles of queries and keys.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "harness/kernel.hpp"
#include "kernels/kda/micro.hpp"
#include "kernels/kda/parallel.hpp"
#include "kernels/kda/scratch.hpp"

namespace parity::attention_kernel {

using kda_kernel::Band;
using kda_kernel::leading;
using kda_kernel::Micro;
using kda_kernel::Onto;
using kda_kernel::pad;
using kda_kernel::Product;
using kda_kernel::Scratch;
using kda_kernel::Stored;

inline constexpr std::int64_t kTile = 64;  // queries and keys of a tile

// Tokens of one document in the flattened [B*T] and [B*S].
struct Document {
  std::int64_t first_query = 0, queries = 0, first_key = 0, keys = 0;
};

struct Rows {
  std::int64_t first = 0, count = 0;  // within the document
};

// One tile of work: rows of a document and a head.
struct Item {
  std::int64_t document = 0, head = 0;
  Rows rows = {};
};

struct Problem {
  const Launch& launch;
  const Micro& m;
  std::int64_t B = 1, T = 0, S = 0, H = 1, G = 1, D = 0, V = 0;
  bool causal = true, top = false, bf16 = false;
  float scale = 1;
  std::vector<Document> documents = {};

  // Keys [0, seen_by) of its document that query t sees.
  std::int64_t seen_by(const Document&, std::int64_t t) const;
  std::int64_t key_head(std::int64_t h) const;
  // Tiles of the queries of all query heads, or of the keys of all key heads.
  std::vector<Item> query_tiles() const;
  std::vector<Item> key_tiles() const;
  std::vector<Item> key_heads() const;  // whole ones
  bool fault(std::string_view id) const { return !launch.fault.empty() && launch.fault == id; }

  // Rows of one head of a tensor [tokens, heads, width], as they are stored.
  Stored rows_in(std::string_view name, std::int64_t token, std::int64_t head, std::int64_t heads,
                 std::int64_t width) const;
  Stored rows_out(std::string_view name, std::int64_t token, std::int64_t head, std::int64_t heads,
                  std::int64_t width) const;
};

std::string refuses(const Case&, const Options&);
Problem problem_of(const Launch&);

// Zero where a query of the tile sees a key of the tile, else -inf is put into the logit.
//   logits   [keys, queries] with leading dimension ld, or [queries, keys]
enum class Layout : std::uint8_t { KeysByQueries, QueriesByKeys };
void mask(const Problem&, const Document&, Rows queries, Rows keys, Layout, float* logits,
          std::int64_t ld);

// Hands items to threads, each with a worker Work(problem) of its own.
template <class Work>
void for_items(const Problem& p, const std::vector<Item>& items) {
  kda_kernel::for_each_item(p.launch.threads, std::ssize(items), [&] {
    return [&, worker = std::make_shared<Work>(p)](std::int64_t i) {
      (*worker)(items[static_cast<std::size_t>(i)]);
    };
  });
}

void online_forward(const Problem&);
void online_backward(const Problem&);

}  // namespace parity::attention_kernel

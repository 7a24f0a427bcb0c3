// vision_scatter.rows: every row of the batch is walked once, token by token; what its slots hold
// is then copied, rows of the batch to threads. The backward gives each row of the table, in order
// of the tokens, an f32 sum. Any D.
#include <algorithm>
#include <array>
#include <cstring>
#include <fmt/format.h>

#include "kernels/unit/rows.hpp"

namespace parity::unit_kernel {
namespace {

struct Walk {
  std::int64_t B = 0, T = 0, S = 0, D = 0, V = 0, image = 0, padding = 0, items = 0;
  bool merge = false, released = false;
  std::vector<std::int64_t> count = {};   // features by item
  std::vector<std::int64_t> first = {};   // first item of a row, [B + 1]
  std::vector<std::int64_t> length = {};  // slots that a row fills
  bool left = true;
  const std::int64_t* tokens_BT = nullptr;
  std::string_view fault = {};
};

constexpr std::int64_t kNothing = -1;

// Features of each image, from "3+2+4".
std::vector<std::int64_t> counts_of(const std::string& text) {
  std::vector<std::int64_t> counts(text.empty() ? 0 : 1);
  for (const char c : text) {
    if (c == '+')
      counts.push_back(0);
    else
      counts.back() = counts.back() * 10 + (c - '0');
  }
  return counts;
}

Walk walk_of(const Launch& l) {
  const Case& c = l.problem;
  Walk w{.B = c.sizes["B"], .T = c.sizes["T"], .D = c.sizes["D"], .V = c.sizes["V"]};
  w.S = c.sizes.get("S", w.T);
  w.image = c.options.integer("image_id", 7), w.padding = c.options.integer("pad_id", 0);
  w.merge = c.options.get("form", "runs") == "merge";
  w.released = w.merge && c.options.flag("rightpad_bug");
  w.count = counts_of(c.options.get("counts", ""));
  w.tokens_BT = l.in<std::int64_t>("tokens");
  w.fault = l.fault;
  for (std::int64_t b = 0; b < w.B; ++b) {
    const std::int64_t* row_T = w.tokens_BT + b * w.T;
    w.first.push_back(w.items);
    std::int64_t filled = 0;
    for (std::int64_t t = 0; t < w.T; ++t) {
      const bool image = row_T[t] == w.image;
      const bool opens = image && (w.merge || t == 0 || row_T[t - 1] != w.image);
      filled += w.merge && image ? w.count[static_cast<std::size_t>(w.items)] : 1;
      w.items += opens;
    }
    w.length.push_back(filled);
    w.left &= row_T[w.T - 1] != w.padding;
  }
  w.first.push_back(w.items);
  return w;
}

// The released rule for padding on the right: text as it comes, images in the free slots behind the
// first `missing` of them.
template <class Visit>
void for_released_slots(const Walk& w, std::int64_t b, const Visit& visit) {
  const std::int64_t* row_T = w.tokens_BT + b * w.T;
  std::vector<std::int64_t> token_S(static_cast<std::size_t>(w.S), kNothing);
  std::int64_t slot = 0, item = w.first[static_cast<std::size_t>(b)];
  for (std::int64_t t = 0, next = item; t < w.T; ++t) {
    if (row_T[t] != w.image)
      token_S[static_cast<std::size_t>(slot++)] = t;
    else
      slot += w.count[static_cast<std::size_t>(next++)];
  }
  std::int64_t skipped = w.S - slot, within = 0;
  for (std::int64_t s = 0; s < w.S; ++s) {
    const std::int64_t token = token_S[static_cast<std::size_t>(s)];
    if (token != kNothing || skipped-- > 0) {
      visit(s, token, kNothing, 0);
      continue;
    }
    visit(s, kNothing, item, within++);
    if (within == w.count[static_cast<std::size_t>(item)]) ++item, within = 0;
  }
}

// visit(slot, token or kNothing, item or kNothing, row of the item) for all slots of a row.
template <class Visit>
void for_slots_of_row(const Walk& w, std::int64_t b, const Visit& visit) {
  if (w.released && !w.left) return for_released_slots(w, b, visit);
  const std::int64_t* row_T = w.tokens_BT + b * w.T;
  const std::int64_t missing = w.S - w.length[static_cast<std::size_t>(b)];
  const bool left = w.merge && (w.left != (w.fault == "P-scatter-side"));
  std::int64_t slot = 0, item = w.first[static_cast<std::size_t>(b)] - 1;
  for (; left && slot < missing; ++slot) visit(slot, kNothing, kNothing, 0);
  std::int64_t within = 0;
  for (std::int64_t t = 0; t < w.T; ++t) {
    if (row_T[t] != w.image) {
      visit(slot++, t, kNothing, 0);
      continue;
    }
    if (w.merge || t == 0 || row_T[t - 1] != w.image) ++item, within = 0;
    const std::int64_t n = w.merge ? w.count[static_cast<std::size_t>(item)] : 1;
    for (std::int64_t i = 0; i < n; ++i) visit(slot++, t, item, within++);
  }
  for (; slot < w.S; ++slot) visit(slot, kNothing, kNothing, 0);
}

// Rows of features: one padded tensor, or one an item.
template <class T>
std::vector<T*> items_of(const Walk& w, const auto& find) {
  std::vector<T*> rows;
  const std::int64_t most = w.count.empty() ? 0 : *std::ranges::max_element(w.count);
  for (std::size_t i = 0; i < w.count.size(); ++i)
    rows.push_back(w.merge
                       ? find(fmt::format("feature{}", i))
                       : find(std::string("features")) + static_cast<std::int64_t>(i) * most * w.D);
  return rows;
}

template <class Work>
void for_batch(const Launch& l, const Walk& w, const Work& work) {
  for_slots(l.threads, w.B, [&](std::int64_t b) { work(b); });
}

template <class T>
void copy(const Walk& w, const T* from_D, T* to_D) {
  const std::int64_t n = w.fault == "P-tail" ? w.D - w.D % 16 : w.D;
  std::memcpy(to_D, from_D, static_cast<std::size_t>(n) * sizeof(T));
}

void integers(const Launch& l, const Walk& w) {
  if (std::int64_t* runs = l.out<std::int64_t>("positions")) {
    for (std::int64_t b = 0; b < w.B; ++b)
      for_slots_of_row(
          w, b, [&](std::int64_t slot, std::int64_t, std::int64_t item, std::int64_t within) {
            if (item == kNothing) return;
            std::int64_t* run = runs + item * 4;
            if (within == 0) run[0] = item, run[1] = b, run[2] = slot;
            run[3] = within + 1;
          });
  }
  if (!w.merge) return;
  const auto* mask_BT = l.in<std::int64_t>("attention_mask");
  const auto* labels_BT = l.in<std::int64_t>("labels");
  auto* mask_BS = l.out<std::int64_t>("attention_mask");
  auto* labels_BS = l.out<std::int64_t>("labels");
  auto* positions_BS = l.out<std::int64_t>("position_ids");
  for_batch(l, w, [&](std::int64_t b) {
    std::int64_t seen = 0;
    for_slots_of_row(w, b,
                     [&](std::int64_t slot, std::int64_t token, std::int64_t item, std::int64_t) {
                       const bool text = token != kNothing && item == kNothing;
                       const std::int64_t to = b * w.S + slot, from = b * w.T + token;
                       mask_BS[to] = text ? mask_BT[from] : item != kNothing;
                       labels_BS[to] = text ? labels_BT[from] : -100;
                       positions_BS[to] = mask_BS[to] ? seen++ : 1;
                     });
  });
}

void forward(const Launch& l) {
  const Walk w = walk_of(l);
  integers(l, w);
  with_storage(l.problem.dtype, [&]<class T>(T) {
    const T* table_VD = l.in<T>("embedding");
    const auto features =
        items_of<const T>(w, [&](const std::string& name) { return l.in<T>(name); });
    T* y = l.out<T>("y");
    for_batch(l, w, [&](std::int64_t b) {
      for_slots_of_row(
          w, b, [&](std::int64_t slot, std::int64_t token, std::int64_t item, std::int64_t within) {
            T* to = y + (b * w.S + slot) * w.D;
            const std::int64_t id = token == kNothing ? w.padding : w.tokens_BT[b * w.T + token];
            std::memset(to, 0, static_cast<std::size_t>(w.D) * sizeof(T));
            if (item != kNothing)
              copy(w, features[static_cast<std::size_t>(item)] + within * w.D, to);
            else if (token != kNothing && (!w.merge || id != w.padding))
              copy(w, table_VD + id * w.D, to);
          });
    });
  });
}

void backward(const Launch& l) {
  const Walk w = walk_of(l);
  with_storage(l.problem.dtype, [&]<class T>(T) {
    const T* dy = l.in<T>("cotangents/y");
    T* d_table_VD = l.out<T>("grads/inputs/embedding");
    const auto d_features =
        items_of<T>(w, [&](const std::string& name) { return l.out<T>("grads/inputs/" + name); });
    const std::int64_t most = w.count.empty() ? 0 : *std::ranges::max_element(w.count);
    for (std::size_t i = 0; !w.merge && i < d_features.size(); ++i)
      std::memset(d_features[i], 0, static_cast<std::size_t>(most * w.D) * sizeof(T));
    std::vector<std::vector<const T*>> readers(static_cast<std::size_t>(w.V));
    for (std::int64_t b = 0; b < w.B; ++b)
      for_slots_of_row(
          w, b, [&](std::int64_t slot, std::int64_t token, std::int64_t item, std::int64_t within) {
            const T* from = dy + (b * w.S + slot) * w.D;
            if (item != kNothing) {
              copy(w, from, d_features[static_cast<std::size_t>(item)] + within * w.D);
            } else if (token != kNothing) {
              const std::int64_t id = w.tokens_BT[b * w.T + token];
              if (!w.merge || id != w.padding)
                readers[static_cast<std::size_t>(id)].push_back(from);
            }
          });
    for_slots(l.threads, w.V, [&](std::int64_t id) {
      const std::vector<const T*>& own = readers[static_cast<std::size_t>(id)];
      for (std::int64_t d = 0; d < w.D; ++d) {
        float sum = 0;
        for (std::size_t i = 0; i < own.size(); ++i) {
          const bool last_only = w.fault == "P-scatter-last-token" && i + 1 < own.size();
          if (!last_only) sum += widen(own[i][d]);
        }
        narrow(sum, d_table_VD[id * w.D + d]);
      }
    });
  });
}

const Register kernel{KernelDef{
    .op = "vision_scatter",
    .name = "vision_scatter.rows",
    .what = "copies by rows of the batch, sums of the table's gradient in f32, any D",
    .contract = kF32Contract,
    .forward = forward,
    .backward = backward,
    .faults = {{"P-tail", "", "elements past the last full vector are not copied"},
               {"P-scatter-side", "", "left and right padding exchanged"},
               {"P-scatter-last-token", "", "a repeated token takes the last gradient only"}},
}};

}  // namespace
}  // namespace parity::unit_kernel

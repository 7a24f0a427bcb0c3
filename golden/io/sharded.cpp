#include "golden/io/sharded.hpp"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <fstream>
#include <map>
#include <numeric>

#include "harness/failure.hpp"

namespace parity::io {
namespace {

// K of "rank_K...", "rank-K...", "rankK..."; -1: no file of a rank.
int rank_of(const fs::path& file) {
  std::string stem = file.filename().string();
  if (!stem.starts_with("rank")) return -1;
  std::size_t at = 4;
  if (at < stem.size() && (stem[at] == '_' || stem[at] == '-')) ++at;
  int number = -1;
  for (; at < stem.size() && stem[at] >= '0' && stem[at] <= '9' && number < 1'000'000; ++at)
    number = std::max(number, 0) * 10 + (stem[at] - '0');
  return number;
}

std::vector<std::string> read_lines(const fs::path& file) {
  std::ifstream in(file);
  if (!in) throw UsageError(file.string() + ": cannot be read");
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::vector<std::int64_t> shape_of(const Tensor& tensor) {
  std::vector<std::int64_t> shape;
  for (const Dim& dim : tensor.spec.dims) shape.push_back(dim.extent);
  return shape;
}

// The dimension in which the parts differ from the whole and add up to it, or to it padded.
int sharded_dim(const std::vector<Tensor>& parts, const std::vector<std::int64_t>& whole) {
  for (std::size_t d = 0; d < whole.size(); ++d) {
    std::int64_t sum = 0;
    bool fits = true;
    for (const Tensor& part : parts) {
      std::vector<std::int64_t> shape = shape_of(part);
      if (shape.size() != whole.size()) return -1;
      sum += shape[d];
      shape[d] = whole[d];
      fits = fits && shape == whole;
    }
    const auto n = static_cast<std::int64_t>(parts.size());
    const std::int64_t padded = (whole[d] + n - 1) / n * n;
    if (fits && (sum == whole[d] || sum == padded)) return static_cast<int>(d);
  }
  return -1;
}

Tensor joined_along(const std::vector<Tensor>& parts, std::size_t dim,
                    std::vector<std::int64_t> whole, std::vector<std::int64_t>& begins) {
  TensorSpec spec = parts.front().spec;
  for (std::size_t d = 0; d < whole.size(); ++d) spec.dims[d].extent = whole[d];
  Tensor out = make_tensor(std::move(spec));
  const auto item = static_cast<std::int64_t>(bytes_for(out.spec.dtype, 2)) / 2;
  std::int64_t outer = 1, inner = item;
  for (std::size_t d = 0; d < whole.size(); ++d)
    (d < dim ? outer : inner) *= d == dim ? 1 : whole[d];
  std::int64_t at = 0;
  for (const Tensor& part : parts) {
    begins.push_back(at);
    const std::int64_t own = part.spec.dims[dim].extent, used = std::min(own, whole[dim] - at);
    for (std::int64_t o = 0; o < outer && used > 0; ++o)
      std::memcpy(out.bytes.data() + (o * whole[dim] + at) * inner,
                  part.bytes.data() + o * own * inner, static_cast<std::size_t>(used * inner));
    at += std::max<std::int64_t>(used, 0);
  }
  begins.push_back(at);
  return out;
}

}  // namespace

std::vector<std::string> RankFiles::names() const {
  std::vector<std::string> names;
  for (const TensorFile& file : ranks)
    for (const TensorInfo& info : file.tensors())
      if (std::ranges::find(names, info.name) == names.end()) names.push_back(info.name);
  return names;
}

RankFiles open_ranks(const fs::path& path) {
  RankFiles run{.path = path};
  std::error_code error;
  std::map<int, fs::path> files, traces;
  if (fs::is_directory(path, error))
    for (const fs::directory_entry& entry : fs::directory_iterator(path)) {
      const int rank = rank_of(entry.path());
      if (rank < 0) continue;
      std::map<int, fs::path>& kind = entry.path().extension() == ".trace" ? traces : files;
      if (!kind.emplace(rank, entry.path()).second)
        throw UsageError(fmt::format("{}: two files of rank {}", path.string(), rank));
    }
  if (files.empty()) {
    run.ranks.push_back(open(path));
    return run;
  }
  for (const auto& [rank, file] : files) {
    if (rank != static_cast<int>(run.ranks.size()))
      throw UsageError(fmt::format("{}: no file of rank {}", path.string(), run.ranks.size()));
    run.ranks.push_back(open(file));
    if (const auto trace = traces.find(rank); trace != traces.end())
      run.traces.push_back(read_lines(trace->second));
  }
  if (!run.traces.empty() && run.traces.size() != run.ranks.size())
    throw UsageError(path.string() + ": some ranks have a trace, others none");
  return run;
}

Merged merge(const RankFiles& run, const std::string& name,
             const std::optional<std::vector<std::int64_t>>& shape) {
  Merged merged;
  std::vector<Tensor> parts;
  std::vector<std::size_t> missing;
  for (std::size_t r = 0; r < run.ranks.size(); ++r) {
    const std::size_t* at = run.ranks[r].find(name);
    if (at == nullptr)
      missing.push_back(r);
    else
      parts.push_back(run.ranks[r].read(*at));
  }
  if (!missing.empty()) {
    merged.trouble = fmt::format("rank {} has no '{}'", fmt::join(missing, ", "), name);
    return merged;
  }
  for (const Tensor& part : parts)
    if (part.spec.dtype != parts.front().spec.dtype) {
      merged.trouble = "the ranks keep it in different dtypes";
      return merged;
    }
  if (parts.size() == 1) {
    merged.placement = "Whole";
    merged.whole = std::move(parts.front());
    return merged;
  }
  const auto unequal = std::ranges::find_if(
      parts, [&](const Tensor& part) { return part.bytes != parts.front().bytes; });
  const bool replica = shape ? shape_of(parts.front()) == *shape : unequal == parts.end();
  if (replica || parts.front().spec.dims.empty()) {
    merged.placement = "Replicate";
    if (unequal != parts.end())
      merged.trouble =
          fmt::format("the replica of rank {} is not that of rank 0", unequal - parts.begin());
    merged.whole = std::move(parts.front());
    return merged;
  }
  std::vector<std::int64_t> whole = shape.value_or(shape_of(parts.front()));
  if (!shape) {
    whole[0] = 0;
    for (const Tensor& part : parts) whole[0] += part.spec.dims[0].extent;
  }
  merged.dim = sharded_dim(parts, whole);
  if (merged.dim < 0) {
    merged.trouble = fmt::format("its parts on {} ranks do not make [{}] along any dimension",
                                 parts.size(), fmt::join(whole, ", "));
    return merged;
  }
  merged.placement = fmt::format("Shard({})", merged.dim);
  merged.whole = joined_along(parts, static_cast<std::size_t>(merged.dim), whole, merged.begins);
  return merged;
}

}  // namespace parity::io

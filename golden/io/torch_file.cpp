// .pt of torch.save: a .zip of a pickle and one member for each storage. Dictionaries and lists
// give names ("model.layers.0.w"); what is no tensor is left out.
#include <algorithm>
#include <map>
#include <memory>

#include "golden/io/pickle.hpp"
#include "golden/io/tensor_file.hpp"
#include "golden/io/zip.hpp"
#include "harness/failure.hpp"

namespace parity::io {
namespace {

constexpr std::int64_t kLongestPickle = 256 << 20;  // bytes
// Bytes of a storage that is read with strides.
constexpr std::int64_t kLargestGathered = 1LL << 30;
constexpr std::int64_t kMostElements = 1LL << 50;  // of a storage
constexpr int kDeepest = 64;                       // levels of dictionaries
constexpr std::size_t kHighestRank = 32;

using Node = PickleNode;
using Kind = Node::Kind;

struct Source {
  std::string key = {};
  std::int64_t offset = 0;  // elements
  std::int64_t stored = 0;  // elements of the storage, by its own account
  std::vector<std::int64_t> strides = {};
  bool dense = true;
};

// The tensors of a tree, by their paths.
class TensorTree {
 public:
  explicit TensorTree(std::string where) : where_(std::move(where)) {}
  std::vector<TensorInfo> infos = {};
  std::vector<Source> sources = {};

  void walk(const Node& node, const std::string& path, int depth) {
    if (depth > kDeepest || ++visited_ > kMostPickleNodes)
      throw UsageError(where_ + ": is nested too deeply");
    if (node.kind == Kind::Tensor) return add(node, path.empty() ? "tensor" : path);
    const std::string lead = path.empty() ? "" : path + ".";
    if (node.kind == Kind::Dict)
      for (std::size_t i = 0; i < node.items.size(); i += 2) {
        const Node& key = *node.items[i];
        walk(*node.items[i + 1],
             lead + (key.kind == Kind::Text ? key.text : std::to_string(key.number)), depth + 1);
      }
    if (node.kind == Kind::List || node.kind == Kind::Tuple)
      for (std::size_t i = 0; i < node.items.size(); ++i)
        walk(*node.items[i], lead + std::to_string(i), depth + 1);
  }

 private:
  void add(const Node& node, const std::string& name) {
    const std::string where = where_ + ": '" + name + "'";
    if (!is_utf8(name)) throw UsageError(where_ + ": the name of a tensor is no UTF-8");
    TensorInfo info{
        .name = name, .dtype = node.dtype, .stored = std::string(parity::name(node.dtype))};
    Source source{.key = node.items[0]->text, .offset = node.items[1]->number};
    if (node.items[2]->items.size() > kHighestRank) throw UsageError(where + ": has too many axes");
    for (const Node* extent : node.items[2]->items) info.shape.push_back(extent->number);
    for (const Node* stride : node.items[3]->items) source.strides.push_back(stride->number);
    measure(info, where);
    std::int64_t last = source.offset, dense = 1;
    bool bad = source.offset < 0;
    for (std::size_t d = info.shape.size(); d-- > 0;) {
      source.dense &= info.shape[d] == 1 || source.strides[d] == dense;
      dense *= std::max<std::int64_t>(1, info.shape[d]);
      std::int64_t reach = 0;
      bad |= source.strides[d] < 0 ||
             __builtin_mul_overflow(source.strides[d], std::max<std::int64_t>(0, info.shape[d] - 1),
                                    &reach) ||
             __builtin_add_overflow(last, reach, &last);
    }
    const std::int64_t stored =
        node.items[0]->dtype == node.dtype
            ? node.items[0]->number
            : node.items[0]->number / static_cast<std::int64_t>(bytes_for(node.dtype, 1));
    source.stored = stored;
    bad |= stored < 0 || stored > kMostElements;
    if (bad || (info.elements > 0 && last >= stored))
      throw UsageError(where + ": reaches beyond its storage of " + std::to_string(stored) +
                       " elements");
    if (info.elements > 16 * stored + 16)  // of what is repeated by strides of zero
      throw UsageError(where + ": claims " + std::to_string(info.elements) + " elements of " +
                       std::to_string(stored));
    infos.push_back(std::move(info));
    sources.push_back(std::move(source));
  }

  std::string where_;
  std::size_t visited_ = 0;
};

// Elements [first, ...) of a tensor whose storage is in memory, row-major.
void gather(const TensorInfo& info, const Source& source, std::span<const std::byte> storage,
            std::int64_t first, std::span<std::byte> out) {
  const auto width = static_cast<std::int64_t>(bytes_for(info.dtype, 1));
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::int64_t byte = first + static_cast<std::int64_t>(i);
    std::int64_t flat = byte / width, at = source.offset;
    for (std::size_t d = info.shape.size(); d-- > 0;) {
      at += flat % info.shape[d] * source.strides[d];
      flat /= info.shape[d];
    }
    out[i] = storage[static_cast<std::size_t>(at * width + byte % width)];
  }
}

}  // namespace

TensorFile open_torch(const fs::path& path) {
  auto file = std::make_shared<const Bytes>(path);
  std::map<std::string, ZipMember> members;
  std::string root;
  for (ZipMember& member : zip_members(*file)) {
    if (member.name.ends_with("/data.pkl")) root = member.name.substr(0, member.name.size() - 8);
    std::string name = member.name;
    if (!members.emplace(name, std::move(member)).second)
      throw UsageError(path.string() + ": '" + name + "' is there twice");
  }
  const auto text = [&](const std::string& name) {
    const ZipMember& member = members.at(name);
    if (member.size > kLongestPickle) throw UsageError(path.string() + ": its pickle is too long");
    std::string bytes(static_cast<std::size_t>(member.size), '\0');
    ZipStream(file, member).read(0, std::as_writable_bytes(std::span(bytes)));
    return bytes;
  };
  if (root.empty()) throw UsageError(path.string() + ": holds no data.pkl; torch.save writes one");
  if (members.contains(root + "byteorder") && text(root + "byteorder") != "little")
    throw UsageError(path.string() + ": is big-endian");
  const PickleTree pickle = read_pickle(text(root + "data.pkl"), path.string());
  auto tree = std::make_shared<TensorTree>(path.string());
  tree->walk(*pickle.root, "", 0);
  std::vector<ZipMember> storages;
  for (std::size_t i = 0; i < tree->infos.size(); ++i) {
    const TensorInfo& info = tree->infos[i];
    const std::string where = path.string() + ": '" + info.name + "'";
    const auto it = members.find(root + "data/" + tree->sources[i].key);
    if (it == members.end()) throw UsageError(where + ": its storage is missing");
    if (tree->sources[i].stored * static_cast<std::int64_t>(bytes_for(info.dtype, 1)) >
        it->second.size)
      throw UsageError(where + ": its storage has " + std::to_string(it->second.size) +
                       " bytes, fewer than it says");
    if (!tree->sources[i].dense && it->second.size > kLargestGathered)
      throw UsageError(where + ": is not contiguous, and its storage larger than 1 GiB");
    storages.push_back(it->second);
  }
  struct Opened {
    std::string key = {};
    std::unique_ptr<ZipStream> stream = {};
    std::vector<std::byte> whole = {};
  };
  auto opened = std::make_shared<Opened>();
  std::vector<TensorInfo> infos = tree->infos;
  return {path,
          std::move(infos),
          {},
          [file, tree, storages = std::move(storages), opened](
              std::size_t tensor, std::int64_t first, std::span<std::byte> out) {
            const TensorInfo& info = tree->infos[tensor];
            const Source& source = tree->sources[tensor];
            const ZipMember& storage = storages[tensor];
            if (opened->key != storage.name) {
              *opened = {storage.name, std::make_unique<ZipStream>(file, storage), {}};
            }
            if (source.dense)
              return opened->stream->read(
                  source.offset * static_cast<std::int64_t>(bytes_for(info.dtype, 1)) + first, out);
            if (opened->whole.empty()) {
              opened->whole.resize(static_cast<std::size_t>(storage.size));
              opened->stream->read(0, opened->whole);
            }
            gather(info, source, opened->whole, first, out);
          }};
}

}  // namespace parity::io

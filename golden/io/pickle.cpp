#include "golden/io/pickle.hpp"

#include <algorithm>
#include <map>
#include <span>
#include <stdexcept>
#include <string_view>

#include "golden/io/bytes.hpp"
#include "harness/failure.hpp"

namespace parity::io {
namespace {

using Node = PickleNode;
using Kind = Node::Kind;

struct StorageType {
  const char* global;
  Dtype dtype;
};
constexpr StorageType kStorages[] = {
    {"torch FloatStorage", Dtype::F32},         {"torch DoubleStorage", Dtype::F64},
    {"torch HalfStorage", Dtype::F16},          {"torch BFloat16Storage", Dtype::BF16},
    {"torch LongStorage", Dtype::I64},          {"torch IntStorage", Dtype::I32},
    {"torch ShortStorage", Dtype::I16},         {"torch CharStorage", Dtype::I8},
    {"torch ByteStorage", Dtype::U8},           {"torch BoolStorage", Dtype::Bool},
    {"torch.storage UntypedStorage", Dtype::U8}};

class Pickle {
 public:
  Pickle(const std::string& bytes, const std::string& where) : bytes_(bytes), where_(where) {}

  PickleTree run() {
    for (char op = take(1)[0]; op != '.'; op = take(1)[0]) step(op);
    const Node* root = pop();
    return {root, std::move(nodes_)};
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw UsageError(where_ + ": its pickle " + what);
  }
  std::string_view take(std::uint64_t count) {
    if (count > bytes_.size() - at_) fail("is cut short");
    at_ += count;
    return std::string_view(bytes_).substr(at_ - count, count);
  }
  std::uint64_t number(std::size_t width) {
    return little_endian(std::as_bytes(std::span(take(width))), width);
  }
  std::string_view line() {
    const std::size_t end = bytes_.find('\n', at_);
    if (end == std::string::npos) fail("is cut short");
    const std::string_view text = take(end - at_);
    ++at_;
    return text;
  }
  Node* make(Kind kind, std::int64_t number = 0, std::string text = {}) {
    if (nodes_.size() >= kMostPickleNodes) fail("is too large");
    nodes_.push_back(
        std::make_unique<Node>(Node{.kind = kind, .number = number, .text = std::move(text)}));
    return nodes_.back().get();
  }
  void push(Node* node) { stack_.push_back(node); }
  Node* pop() {
    if (stack_.empty()) fail("takes from an empty stack");
    Node* node = stack_.back();
    stack_.pop_back();
    return node;
  }
  Node* top() {
    if (stack_.empty()) fail("takes from an empty stack");
    return stack_.back();
  }
  std::vector<Node*> pop_to_mark() {
    std::vector<Node*> items;
    for (Node* node = pop(); node->kind != Kind::Mark; node = pop()) items.push_back(node);
    std::ranges::reverse(items);
    return items;
  }
  void tuple(std::size_t count) {
    Node* made = make(Kind::Tuple);
    for (std::size_t i = 0; i < count; ++i) made->items.insert(made->items.begin(), pop());
    push(made);
  }
  void extend(Node* into, Kind kind, const std::vector<Node*>& items) {
    if (into->kind != kind || (kind == Kind::Dict && items.size() % 2 != 0))
      fail("fills what is no dictionary or list");
    into->items.insert(into->items.end(), items.begin(), items.end());
  }
  void remember(std::uint64_t slot) { memo_[slot] = top(); }
  void recall(std::uint64_t slot) {
    const auto it = memo_.find(slot);
    if (it == memo_.end()) fail("recalls what it never kept");
    push(it->second);
  }

  void step(char op) {
    switch (op) {
      case '\x80':
        if (number(1) > 5) fail("is of a protocol beyond 5");
        return;
      case '\x95':
        return void(take(8));  // frame
      case '(':
        return push(make(Kind::Mark));
      case '0':
        return void(pop());
      case 'N':
        return push(make(Kind::Other));
      case '\x88':
      case '\x89':
        return push(make(Kind::Int, op == '\x88'));
      case 'J':
        return push(make(Kind::Int, static_cast<std::int32_t>(number(4))));
      case 'K':
        return push(make(Kind::Int, static_cast<std::int64_t>(number(1))));
      case 'M':
        return push(make(Kind::Int, static_cast<std::int64_t>(number(2))));
      case '\x8a': {
        const std::uint64_t width = number(1);
        if (width > 8) fail("holds an integer of more than 64 bits");
        std::uint64_t value = number(width);
        if (width > 0 && width < 8 && value >> (8 * width - 1)) value |= ~0ULL << (8 * width);
        return push(make(Kind::Int, static_cast<std::int64_t>(value)));
      }
      case 'G':
        take(8);
        return push(make(Kind::Other));
      case 'X':
        return push(make(Kind::Text, 0, std::string(take(number(4)))));
      case '\x8c':
        return push(make(Kind::Text, 0, std::string(take(number(1)))));
      case 'c': {
        const std::string module(line());
        return push(make(Kind::Global, 0, module + " " + std::string(line())));
      }
      case '\x93': {
        const Node *word = pop(), *module = pop();
        return push(make(Kind::Global, 0, module->text + " " + word->text));
      }
      case ')':
        return tuple(0);
      case '\x85':
      case '\x86':
      case '\x87':
        return tuple(static_cast<std::size_t>(op - '\x85') + 1);
      case 't': {
        std::vector<Node*> items = pop_to_mark();
        push(make(Kind::Tuple));
        top()->items = std::move(items);
        return;
      }
      case ']':
        return push(make(Kind::List));
      case '}':
        return push(make(Kind::Dict));
      case 'a': {
        Node* item = pop();
        return extend(top(), Kind::List, {item});
      }
      case 'e': {
        const std::vector<Node*> items = pop_to_mark();
        return extend(top(), Kind::List, items);
      }
      case 's': {
        Node *value = pop(), *key = pop();
        return extend(top(), Kind::Dict, {key, value});
      }
      case 'u': {
        const std::vector<Node*> items = pop_to_mark();
        return extend(top(), Kind::Dict, items);
      }
      case 'q':
        return remember(number(1));
      case 'r':
        return remember(number(4));
      case '\x94':
        return remember(memo_.size());
      case 'h':
        return recall(number(1));
      case 'j':
        return recall(number(4));
      case 'b':
        return void(pop());  // attributes of an ordered dictionary
      case 'Q':
        return push(storage(*pop()));
      case 'R': {
        const Node* arguments = pop();
        const Node* callable = pop();
        return push(called(*callable, *arguments));
      }
      default:
        fail("has opcode " + std::to_string(static_cast<unsigned char>(op)) +
             ", which no weights need (save a state_dict, not a module)");
    }
  }

  // ('storage', type, key, device, elements)
  Node* storage(const Node& id) {
    if (id.kind != Kind::Tuple || id.items.size() < 5 || id.items[1]->kind != Kind::Global)
      fail("names no storage");
    const auto type = std::ranges::find(kStorages, id.items[1]->text,
                                        [](const StorageType& t) { return std::string(t.global); });
    if (type == std::end(kStorages)) fail("has a storage of " + id.items[1]->text);
    Node* made = make(Kind::Storage, id.items[4]->number, id.items[2]->text);
    made->dtype = type->dtype;
    return made;
  }

  Node* called(const Node& callable, const Node& arguments) {
    const std::string what = callable.kind == Kind::Global ? callable.text : "something unnamed";
    const std::vector<Node*>& items = arguments.items;
    if (what == "collections OrderedDict" && items.empty()) return make(Kind::Dict);
    if (what == "torch Size" && items.size() == 1) return items[0];
    if (what.starts_with("torch._utils _rebuild_parameter") && !items.empty()) return items[0];
    const bool v3 = what == "torch._utils _rebuild_tensor_v3";
    if (what != "torch._utils _rebuild_tensor_v2" && !v3)
      fail("wants to call " + what + "; nothing in a file is executed");
    if (items.size() < (v3 ? 7u : 4u) || items[0]->kind != Kind::Storage ||
        items[2]->kind != Kind::Tuple || items[3]->kind != Kind::Tuple ||
        items[2]->items.size() != items[3]->items.size())
      fail("describes no tensor");
    Node* tensor = make(Kind::Tensor);
    tensor->items.assign(items.begin(), items.begin() + 4);
    tensor->dtype = items[0]->dtype;
    if (v3) try {
        std::string dtype = items[6]->text;  // "torch float8_e4m3fn"
        std::ranges::replace(dtype, ' ', '.');
        tensor->dtype = parse_dtype(dtype);
      } catch (const std::invalid_argument&) {
        fail("has a tensor of dtype " + items[6]->text);
      }
    return tensor;
  }

  const std::string& bytes_;
  const std::string& where_;
  std::size_t at_ = 0;
  std::vector<Node*> stack_ = {};
  std::map<std::uint64_t, Node*> memo_ = {};
  std::vector<std::unique_ptr<Node>> nodes_ = {};
};

}  // namespace

PickleTree read_pickle(const std::string& bytes, const std::string& where) {
  return Pickle(bytes, where).run();
}

}  // namespace parity::io

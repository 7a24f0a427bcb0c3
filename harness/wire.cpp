// Records through a pipe: values in the order of record_fields.hpp, little endian, lengths before
// contents. What arrives is not trusted: a kernel may have written over the memory of the process
// that sent it.
#include <cstring>
#include <type_traits>

#include "harness/failure.hpp"
#include "harness/record_fields.hpp"
#include "harness/suite.hpp"

namespace parity {
namespace {

class Writer {
 public:
  template <class T>
  void operator()(const char*, T& value) {
    put(value);
  }
  std::string take() { return std::move(out_); }

 private:
  template <class T>
  requires std::is_arithmetic_v<T>
  void put(const T& value) {
    char raw[sizeof(T)];
    std::memcpy(raw, &value, sizeof(T));
    out_.append(raw, sizeof(T));
  }
  void put(std::string& text) {
    put(static_cast<std::uint64_t>(text.size()));
    out_ += text;
  }
  template <class T>
  void put(std::vector<T>& list) {
    put(static_cast<std::uint64_t>(list.size()));
    for (T& item : list) put(item);
  }
  template <class V>
  void put(std::map<std::string, V>& map) {
    put(static_cast<std::uint64_t>(map.size()));
    for (auto& [key, value] : map) {
      std::string copy = key;
      put(copy), put(value);
    }
  }
  template <class T>
  void put(std::optional<T>& value) {
    put(value.has_value());
    if (value) put(*value);
  }
  template <class T>
  requires(std::is_class_v<T>) void put(T& record) { fields(*this, record); }

  std::string out_ = {};
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}
  template <class T>
  void operator()(const char* name, T& value) {
    field_ = name;
    get(value);
  }
  bool done() const { return rest_.empty(); }

 private:
  [[noreturn]] void refuse(const char* why) const {
    throw Failure(std::string("record from a child: ") + why + " at field '" + field_ + "'");
  }
  std::string_view take(std::uint64_t n) {
    if (n > rest_.size()) refuse("truncated");
    const std::string_view head = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return head;
  }
  // Each item takes at least one byte, so that a length is never larger than what is left.
  std::uint64_t length() {
    std::uint64_t n = 0;
    get(n);
    if (n > rest_.size()) refuse("a length beyond the end");
    return n;
  }
  void get(bool& value) {
    const unsigned char c = static_cast<unsigned char>(take(1)[0]);
    if (c > 1) refuse("no truth value");
    value = c == 1;
  }
  template <class T>
  requires std::is_arithmetic_v<T>
  void get(T& value) { std::memcpy(&value, take(sizeof(T)).data(), sizeof(T)); }
  void get(std::string& text) { text = take(length()); }
  template <class T>
  void get(std::vector<T>& list) {
    const std::uint64_t n = length();
    list.clear();
    for (std::uint64_t i = 0; i < n; ++i) get(list.emplace_back());
  }
  template <class V>
  void get(std::map<std::string, V>& map) {
    const std::uint64_t n = length();
    map.clear();
    for (std::uint64_t i = 0; i < n; ++i) {
      std::string key;
      get(key);
      get(map[key]);
    }
  }
  template <class T>
  void get(std::optional<T>& value) {
    bool has = false;
    get(has);
    value.reset();
    if (has) get(value.emplace());
  }
  template <class T>
  requires(std::is_class_v<T>) void get(T& record) { fields(*this, record); }

  std::string_view rest_;
  const char* field_ = "";
};

}  // namespace

std::string to_wire(const CaseRecord& record) {
  Writer writer;
  CaseRecord copy = record;  // fields() visits by reference, for readers and writers alike
  fields(writer, copy);
  return writer.take();
}

CaseRecord from_wire(std::string_view bytes) {
  Reader reader(bytes);
  CaseRecord record;
  fields(reader, record);
  if (!reader.done()) throw Failure("record from a child: bytes after the last field");
  return record;
}

}  // namespace parity

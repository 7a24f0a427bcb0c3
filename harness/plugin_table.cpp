#include "harness/plugin_table.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include "harness/failure.hpp"
#include "harness/text.hpp"

namespace parity {
namespace {

constexpr const char* kSymbol = "parity_plugin_kernels";
constexpr std::size_t kMostWords = 4096;  // of any list: more is no table

// Texts one after another, each with its length in front: "5:hello".
class Writer {
 public:
  void put(std::string_view text) { text_ += fmt::format("{}:{}", text.size(), text); }
  void put(const char* text) { put(std::string_view(text ? text : "")); }
  void put(std::int64_t number) { put(std::string_view(std::to_string(number))); }
  // A list that ends in null.
  void put(const char* const* words) {
    std::size_t n = 0;
    while (words && words[n] && n < kMostWords) ++n;
    put(static_cast<std::int64_t>(n));
    for (std::size_t i = 0; i < n; ++i) put(words[i]);
  }
  std::string text() && { return std::move(text_); }

 private:
  std::string text_ = {};
};

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}
  std::string word() {
    const std::size_t colon = text_.find(':');
    if (colon == std::string_view::npos) throw Failure("the table of a plug-in ends early");
    const std::int64_t length = to_integer(text_.substr(0, colon), "a length in a plug-in's table");
    if (length < 0 || static_cast<std::size_t>(length) > text_.size() - colon - 1)
      throw Failure("the table of a plug-in ends early");
    std::string found(text_.substr(colon + 1, static_cast<std::size_t>(length)));
    text_.remove_prefix(colon + 1 + found.size());
    return found;
  }
  std::int64_t number() { return to_integer(word(), "a number in a plug-in's table"); }
  std::vector<std::string> words() {
    std::vector<std::string> list;
    for (std::int64_t n = number(); n > 0; --n) list.push_back(word());
    return list;
  }
  bool at_end() const { return text_.empty(); }

 private:
  std::string_view text_;
};

void print_kernel(Writer& out, const parity_kernel& kernel, std::size_t number) {
  const auto refuse = [&](const char* what) -> UsageError {
    return UsageError(fmt::format("kernel {} of its table{} {}", number,
                                  kernel.name ? fmt::format(" ('{}')", kernel.name) : "", what));
  };
  if (!kernel.op || !*kernel.op) throw refuse("names no op");
  if (!kernel.name || !*kernel.name) throw refuse("has no name");
  if (!kernel.forward) throw refuse("has no forward");
  if (!kernel.dtypes || !kernel.dtypes[0]) throw refuse("names no data type that it takes");
  if ((kernel.n_roundings && !kernel.roundings) || (kernel.n_faults && !kernel.faults))
    throw refuse("counts rounding points or faults, and has none");
  for (const char* text :
       {kernel.op, kernel.name, kernel.what, kernel.needs, kernel.contract, kernel.accumulate})
    out.put(text);
  out.put(kernel.chunk);
  out.put(std::int64_t{kernel.nondeterministic == 0});
  out.put(std::int64_t{kernel.backward != nullptr});
  out.put(kernel.dtypes);
  out.put(kernel.invariant);
  out.put(static_cast<std::int64_t>(kernel.n_roundings));
  for (std::size_t i = 0; i < kernel.n_roundings; ++i)
    for (const char* text :
         {kernel.roundings[i].where, kernel.roundings[i].to, kernel.roundings[i].mode})
      out.put(text);
  out.put(static_cast<std::int64_t>(kernel.n_faults));
  for (std::size_t i = 0; i < kernel.n_faults; ++i)
    for (const char* text : {kernel.faults[i].id, kernel.faults[i].what}) out.put(text);
}

}  // namespace

const parity_plugin& load_plugin(const std::filesystem::path& file) {
  void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* why = ::dlerror();
    throw UsageError(fmt::format("cannot be loaded: {}", why ? why : "no reason given"));
  }
  void* symbol = ::dlsym(library, kSymbol);
  if (!symbol) throw UsageError(fmt::format("exports no {}(): it is no plug-in", kSymbol));
  const parity_plugin* plugin = reinterpret_cast<const parity_plugin* (*)()>(symbol)();
  if (!plugin) throw UsageError(fmt::format("{}() returned null", kSymbol));
  if (plugin->version != PARITY_PLUGIN_VERSION)
    throw UsageError(
        fmt::format("is made for version {} of parity_plugin.h, and this parity has version {}",
                    plugin->version, PARITY_PLUGIN_VERSION));
  if (plugin->kernel_bytes != sizeof(parity_kernel))
    throw UsageError(
        fmt::format("has kernels of {} bytes, and parity_plugin.h says {}: built with "
                    "another header or packed structures",
                    plugin->kernel_bytes, sizeof(parity_kernel)));
  if (!plugin->kernels || plugin->n_kernels == 0) throw UsageError("has no kernels in its table");
  return *plugin;
}

std::string print_table(const parity_plugin& plugin) {
  if (plugin.n_kernels > kMostWords)
    throw UsageError(fmt::format("says that it has {} kernels", plugin.n_kernels));
  Writer out;
  for (std::size_t i = 0; i < plugin.n_kernels; ++i) print_kernel(out, plugin.kernels[i], i);
  return std::move(out).text();
}

std::vector<PluginKernel> parse_table(std::string_view text) {
  std::vector<PluginKernel> kernels;
  for (Reader in(text); !in.at_end();) {
    PluginKernel& kernel = kernels.emplace_back();
    for (std::string* field : {&kernel.op, &kernel.name, &kernel.what, &kernel.needs,
                               &kernel.contract, &kernel.accumulate})
      *field = in.word();
    kernel.chunk = in.number();
    kernel.deterministic = in.number() != 0;
    kernel.backward = in.number() != 0;
    kernel.dtypes = in.words();
    kernel.invariant = in.words();
    for (std::int64_t n = in.number(); n > 0; --n) {
      PluginRounding& point = kernel.roundings.emplace_back();
      for (std::string* field : {&point.where, &point.to, &point.mode}) *field = in.word();
    }
    for (std::int64_t n = in.number(); n > 0; --n) {
      std::string id = in.word();
      kernel.faults.emplace_back(std::move(id), in.word());
    }
  }
  return kernels;
}

}  // namespace parity

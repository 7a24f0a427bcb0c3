#include "golden/h5.hpp"

#include <algorithm>
#include <array>

#include "harness/failure.hpp"
#include "harness/text.hpp"

namespace parity::h5 {
namespace {

namespace fs = std::filesystem;

constexpr int kDeepest = 12;                   // levels of groups
constexpr std::size_t kMostObjects = 200'000;  // links below one group
constexpr std::int64_t kMostText = 1 << 20;    // bytes of one attribute
constexpr std::int64_t kInflation = 1032;      // deflate cannot expand further
constexpr std::int64_t kSlack = 1 << 16;

// The library prints its error stack to stderr unless told otherwise; we report in our own words.
void quiet() {
  static const bool once = [] {
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
    H5PLset_loading_state(0);  // a file must not make the process load a filter plug-in
    return true;
  }();
  static_cast<void>(once);
}

std::string trimmed(std::string text) {
  if (const std::size_t nul = text.find('\0'); nul != std::string::npos) text.resize(nul);
  return text;
}

std::string read_text(hid_t attribute, hid_t type, std::int64_t count) {
  std::string all;
  if (H5Tis_variable_str(type) > 0) {
    std::vector<char*> pointers(static_cast<std::size_t>(count), nullptr);
    const Type memory(H5Tcopy(H5T_C_S1));
    H5Tset_size(memory.get(), H5T_VARIABLE);
    H5Tset_cset(memory.get(), H5Tget_cset(type));
    if (H5Aread(attribute, memory.get(), pointers.data()) < 0) return all;
    for (std::int64_t i = 0; i < count; ++i) {
      char* pointer = pointers[static_cast<std::size_t>(i)];
      all += (i > 0 ? "," : "") + std::string(pointer ? pointer : "");
      H5free_memory(pointer);
    }
    return all;
  }
  const std::size_t width = H5Tget_size(type);
  std::string buffer(width * static_cast<std::size_t>(count), '\0');
  if (H5Aread(attribute, type, buffer.data()) < 0) return all;
  for (std::int64_t i = 0; i < count; ++i)
    all += (i > 0 ? "," : "") + trimmed(buffer.substr(static_cast<std::size_t>(i) * width, width));
  return all;
}

std::string read_numbers(hid_t attribute, H5T_class_t kind, std::int64_t count) {
  std::string all;
  const auto n = static_cast<std::size_t>(count);
  if (kind == H5T_FLOAT) {
    std::vector<double> values(n);
    if (H5Aread(attribute, H5T_NATIVE_DOUBLE, values.data()) < 0) return all;
    for (std::size_t i = 0; i < n; ++i) all += (i > 0 ? "," : "") + shortest(values[i]);
  } else if (kind == H5T_INTEGER) {
    std::vector<long long> values(n);
    if (H5Aread(attribute, H5T_NATIVE_LLONG, values.data()) < 0) return all;
    for (std::size_t i = 0; i < n; ++i) all += (i > 0 ? "," : "") + std::to_string(values[i]);
  } else if (kind == H5T_ENUM) {  // h5py writes a bool as an enumeration of int8
    std::vector<std::int8_t> values(n);
    const Type type(H5Aget_type(attribute));
    if (H5Tget_size(type.get()) != 1 || H5Aread(attribute, type.get(), values.data()) < 0)
      return all;
    for (std::size_t i = 0; i < n; ++i) all += (i > 0 ? "," : "") + std::to_string(values[i]);
  }
  return all;
}

std::string attribute_text(hid_t attribute) {
  const Type type(H5Aget_type(attribute));
  const Space space(H5Aget_space(attribute));
  const std::int64_t count = H5Sget_simple_extent_npoints(space.get());
  const auto width = static_cast<std::int64_t>(H5Tget_size(type.get()));
  if (count <= 0 || width <= 0 || count > kMostText / width) return {};
  const H5T_class_t kind = H5Tget_class(type.get());
  return kind == H5T_STRING ? read_text(attribute, type.get(), count)
                            : read_numbers(attribute, kind, count);
}

herr_t collect_attribute(hid_t object, const char* name, const H5A_info_t*, void* out) {
  const Attribute attribute(H5Aopen(object, name, H5P_DEFAULT));
  if (attribute) (*static_cast<Attributes*>(out))[name] = attribute_text(attribute.get());
  return 0;
}

Attributes attributes_of(hid_t object) {
  Attributes attributes;
  hsize_t position = 0;
  H5Aiterate2(object, H5_INDEX_NAME, H5_ITER_INC, &position, collect_attribute, &attributes);
  return attributes;
}

struct Link {
  std::string name = {};
  bool group = false;
};

herr_t collect_link(hid_t group, const char* name, const H5L_info_t* link, void* out) {
  auto& links = *static_cast<std::vector<Link>*>(out);
  if (link->type != H5L_TYPE_HARD) return 0;  // soft and external links may lead anywhere
  if (links.size() >= kMostObjects) return 1;
  H5O_info_t info;
  if (H5Oget_info_by_name(group, name, &info, H5P_DEFAULT) < 0) return 0;
  if (info.type == H5O_TYPE_GROUP || info.type == H5O_TYPE_DATASET)
    links.push_back({name, info.type == H5O_TYPE_GROUP});
  return 0;
}

std::vector<Link> links_of(hid_t group) {
  std::vector<Link> links;
  hsize_t position = 0;
  H5Literate(group, H5_INDEX_NAME, H5_ITER_INC, &position, collect_link, &links);
  return links;
}

void collect_datasets(hid_t group, const std::string& prefix, int depth,
                      std::vector<std::string>& paths) {
  if (depth > kDeepest || paths.size() > kMostObjects) return;  // a group may contain itself
  for (const Link& link : links_of(group)) {
    if (!link.group) {
      paths.push_back(prefix + link.name);
      continue;
    }
    const Group child(H5Gopen2(group, link.name.c_str(), H5P_DEFAULT));
    if (child) collect_datasets(child.get(), prefix + link.name + "/", depth + 1, paths);
  }
}

// Storage types that hold values or bits; -1 where the type is none of them.
hid_t memory_type(Dtype dtype, std::size_t width, H5T_class_t kind) {
  if (kind == H5T_FLOAT) return width == 8 ? H5T_NATIVE_DOUBLE : width == 4 ? H5T_NATIVE_FLOAT : -1;
  switch (width) {
    case 1:
      return dtype == Dtype::I8 ? H5T_NATIVE_INT8 : H5T_NATIVE_UINT8;
    case 2:
      return dtype == Dtype::I16 ? H5T_NATIVE_INT16 : H5T_NATIVE_UINT16;
    case 4:
      return dtype == Dtype::I32 ? H5T_NATIVE_INT32 : H5T_NATIVE_UINT32;
    case 8:
      return dtype == Dtype::I64 ? H5T_NATIVE_INT64 : H5T_NATIVE_UINT64;
    default:
      return -1;
  }
}

Dtype storage_dtype(H5T_class_t kind, std::size_t width, bool is_signed, const std::string& where) {
  if (kind == H5T_FLOAT && width == 8) return Dtype::F64;
  if (kind == H5T_FLOAT && width == 4) return Dtype::F32;
  if (kind == H5T_FLOAT && width == 2) return Dtype::F16;
  if (kind == H5T_STRING) return Dtype::U8;  // of fixed length: its characters
  if (kind == H5T_INTEGER || kind == H5T_ENUM) {
    if (width == 8) return Dtype::I64;
    if (width == 4) return Dtype::I32;
    if (width == 2) return Dtype::I16;
    if (width == 1) return is_signed ? Dtype::I8 : Dtype::U8;
  }
  throw UsageError(where + ": neither an integer nor a float of 1 to 8 bytes");
}

void refuse_unsafe_layout(hid_t dataset, const std::string& where) {
  const Plist plist(H5Dget_create_plist(dataset));
  if (H5Pget_external_count(plist.get()) > 0)
    throw UsageError(where + ": data lies in another file");
  if (H5Pget_layout(plist.get()) == H5D_VIRTUAL) throw UsageError(where + ": virtual dataset");
  const int filters = H5Pget_nfilters(plist.get());
  for (int i = 0; i < filters; ++i) {
    unsigned flags = 0, config = 0;
    std::size_t values = 0;
    std::array<char, 64> name{};
    const H5Z_filter_t filter = H5Pget_filter2(plist.get(), static_cast<unsigned>(i), &flags,
                                               &values, nullptr, name.size(), name.data(), &config);
    if (filter != H5Z_FILTER_DEFLATE && filter != H5Z_FILTER_SHUFFLE &&
        filter != H5Z_FILTER_FLETCHER32)
      throw UsageError(where + ": filter " + std::to_string(filter) + " (" + name.data() +
                       ") is none of deflate, shuffle, fletcher32");
  }
}

std::vector<std::pair<std::uint64_t, std::uint64_t>> pieces_of(hid_t dataset,
                                                               std::int64_t stored_bytes) {
  const haddr_t offset = H5Dget_offset(dataset);
  if (offset != HADDR_UNDEF) return {{offset, static_cast<std::uint64_t>(stored_bytes)}};
  std::vector<std::pair<std::uint64_t, std::uint64_t>> pieces;
  const Space space(H5Dget_space(dataset));
  hsize_t chunks = 0;
  if (H5Dget_num_chunks(dataset, space.get(), &chunks) < 0) return pieces;
  for (hsize_t i = 0; i < std::min<hsize_t>(chunks, kMostObjects); ++i) {
    std::array<hsize_t, 32> origin{};
    unsigned mask = 0;
    haddr_t address = 0;
    hsize_t bytes = 0;
    if (H5Dget_chunk_info(dataset, space.get(), i, origin.data(), &mask, &address, &bytes) >= 0)
      pieces.emplace_back(address, bytes);
  }
  return pieces;
}

// Adds the elements [begin, end) of a row-major array to a selection: at each level the part of a
// first slice, whole slices, and the part of a last one.
void select_range(hid_t space, const std::vector<hsize_t>& extents, hsize_t begin, hsize_t end) {
  std::vector<hsize_t> origin(extents.size(), 0);
  std::vector<hsize_t> count(extents.size(), 1);
  for (std::size_t axis = extents.size(); axis-- > 0 && begin < end;) {
    hsize_t slice = 1;  // elements below this axis
    for (std::size_t d = axis + 1; d < extents.size(); ++d) slice *= extents[d];
    const hsize_t row = slice * extents[axis];
    const auto add = [&](hsize_t from, hsize_t to) {
      if (from == to) return;
      hsize_t rest = from;
      for (std::size_t d = 0; d < extents.size(); ++d) {
        hsize_t below = 1;
        for (std::size_t e = d + 1; e < extents.size(); ++e) below *= extents[e];
        origin[d] = rest / below;
        rest %= below;
        count[d] = d > axis ? extents[d] : d == axis ? (to - from) / slice : 1;
      }
      H5Sselect_hyperslab(space, H5S_SELECT_OR, origin.data(), nullptr, count.data(), nullptr);
    };
    if (axis == 0 || begin / row == (end - 1) / row) return add(begin, end);
    const hsize_t up = (begin + row - 1) / row * row, down = end / row * row;
    add(begin, up);
    add(down, end);
    begin = up;
    end = down;
  }
}

}  // namespace

File::File(const fs::path& path) : path_(path) {
  quiet();
  std::error_code error;
  if (!fs::exists(path, error)) throw UsageError(path.string() + ": no such file");
  if (!fs::is_regular_file(path, error))
    throw UsageError(path.string() +
                     (fs::is_directory(path, error) ? ": is a folder" : ": is no regular file"));
  if (H5Fis_hdf5(path.c_str()) <= 0) throw UsageError(path.string() + ": not an HDF5 file");
  file_ = FileId(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
  if (!file_)
    throw UsageError(path.string() + ": HDF5 cannot open it (truncated after " +
                     std::to_string(fs::file_size(path, error)) + " bytes, or damaged)");
}

std::string File::where(const std::string& object) const { return path_.string() + ": " + object; }

Attributes File::attributes(const std::string& object) const {
  const Owned<H5Oclose> opened(H5Oopen(file_.get(), object.c_str(), H5P_DEFAULT));
  if (!opened) throw UsageError(where(object) + ": cannot be opened");
  return attributes_of(opened.get());
}

std::vector<std::string> File::groups(const std::string& group) const {
  const Group opened(H5Gopen2(file_.get(), group.c_str(), H5P_DEFAULT));
  if (!opened) throw UsageError(where(group) + ": cannot be opened");
  std::vector<std::string> names;
  for (const Link& link : links_of(opened.get()))
    if (link.group) names.push_back(link.name);
  return names;
}

std::vector<std::string> File::datasets(const std::string& group) const {
  std::vector<std::string> paths;
  const Group opened(H5Gopen2(file_.get(), group.c_str(), H5P_DEFAULT));
  if (!opened) return paths;
  collect_datasets(opened.get(), "", 0, paths);
  std::ranges::sort(paths);
  return paths;
}

bool File::has_group(const std::string& path) const {
  return bool(Group(H5Gopen2(file_.get(), path.c_str(), H5P_DEFAULT)));
}

DatasetInfo File::info(const std::string& path) const {
  const Dataset dataset(H5Dopen2(file_.get(), path.c_str(), H5P_DEFAULT));
  if (!dataset) throw UsageError(where(path) + ": no such dataset");
  refuse_unsafe_layout(dataset.get(), where(path));
  const Type type(H5Dget_type(dataset.get()));
  const Space space(H5Dget_space(dataset.get()));
  const H5T_class_t kind = H5Tget_class(type.get());
  const std::size_t width = H5Tget_size(type.get());
  DatasetInfo info{.path = path, .attributes = attributes_of(dataset.get())};
  if (kind == H5T_STRING && H5Tis_variable_str(type.get()) > 0)
    throw UsageError(where(path) + ": text of variable length");
  info.dtype = storage_dtype(kind, width, H5Tget_sign(type.get()) == H5T_SGN_2, where(path));

  const int rank = H5Sget_simple_extent_ndims(space.get());
  if (rank < 0 || rank > 8) throw UsageError(where(path) + ": rank " + std::to_string(rank));
  std::vector<hsize_t> extents(static_cast<std::size_t>(rank));
  H5Sget_simple_extent_dims(space.get(), extents.data(), nullptr);
  info.bytes = static_cast<std::int64_t>(width);
  for (const hsize_t extent : extents) {
    if (extent > (std::uint64_t{1} << 40))
      throw UsageError(where(path) + ": an extent of " + std::to_string(extent));
    info.shape.push_back(static_cast<std::int64_t>(extent));
    if (__builtin_mul_overflow(info.bytes, static_cast<std::int64_t>(extent), &info.bytes))
      throw UsageError(where(path) + ": its extents overflow");
  }
  if (kind == H5T_STRING) info.shape.push_back(static_cast<std::int64_t>(width));
  info.stored_bytes = static_cast<std::int64_t>(H5Dget_storage_size(dataset.get()));
  info.pieces = pieces_of(dataset.get(), info.stored_bytes);
  info.chunked = H5Pget_layout(Plist(H5Dget_create_plist(dataset.get())).get()) == H5D_CHUNKED;
  if (info.bytes > info.stored_bytes * kInflation + kSlack)
    throw UsageError(where(path) + ": claims " + std::to_string(info.bytes) + " bytes and stores " +
                     std::to_string(info.stored_bytes));

  if (const auto it = info.attributes.find("dtype");
      it != info.attributes.end() && kind != H5T_FLOAT && kind != H5T_STRING) {
    Dtype logical = info.dtype;
    try {
      logical = parse_dtype(it->second);
    } catch (const std::invalid_argument&) {
      return info;  // prose: the storage type stands
    }
    const bool packed = logical == Dtype::E2M1;
    if (bytes_for(logical, packed ? 2 : 1) == width) {
      info.dtype = logical;
      if (packed && !info.shape.empty()) info.shape.back() *= 2;
    }
  }
  return info;
}

Tensor File::read(const std::string& path) const {
  const DatasetInfo header = info(path);
  TensorSpec spec{.name = path, .dtype = header.dtype};
  for (std::size_t i = 0; i < header.shape.size(); ++i)
    spec.dims.push_back({"d" + std::to_string(i), header.shape[i]});
  Tensor tensor = make_tensor(std::move(spec));
  if (static_cast<std::int64_t>(tensor.bytes.size()) != header.bytes)
    throw UsageError(where(path) + ": holds " + std::to_string(header.bytes) +
                     " bytes, its dtype " + std::string(name(header.dtype)) + " needs " +
                     std::to_string(tensor.bytes.size()));
  if (tensor.bytes.empty()) return tensor;
  read_range(path, 0, tensor.bytes);
  return tensor;
}

void File::read_range(const std::string& path, std::int64_t first, std::span<std::byte> out) const {
  const DatasetInfo header = info(path);
  const Dataset dataset(H5Dopen2(file_.get(), path.c_str(), H5P_DEFAULT));
  const Type type(H5Dget_type(dataset.get()));
  const H5T_class_t kind = H5Tget_class(type.get());
  const std::size_t width = H5Tget_size(type.get());
  hid_t memory = memory_type(header.dtype, width, kind == H5T_ENUM ? H5T_INTEGER : kind);
  if (memory < 0 || kind == H5T_ENUM || kind == H5T_STRING) memory = type.get();
  const Space all(H5Dget_space(dataset.get()));
  Space in_memory;
  if (static_cast<std::int64_t>(out.size()) != header.bytes) {
    std::vector<hsize_t> extents(header.shape.size());
    H5Sget_simple_extent_dims(all.get(), extents.data(), nullptr);
    H5Sselect_none(all.get());
    const hsize_t begin = static_cast<hsize_t>(first) / width, count = out.size() / width;
    select_range(all.get(), extents, begin, begin + count);
    in_memory = Space(H5Screate_simple(1, &count, nullptr));
  }
  if (H5Dread(dataset.get(), memory, in_memory ? in_memory.get() : H5S_ALL, all.get(), H5P_DEFAULT,
              out.data()) < 0)
    throw UsageError(
        where(path) + ": cannot be read" +
        (header.pieces.empty() ? "" : " at byte " + std::to_string(header.pieces.front().first)) +
        " (truncated, or its checksum disagrees)");
}

std::string library_version() {
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(release);
}

}  // namespace parity::h5

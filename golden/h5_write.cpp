#include <algorithm>

#include "golden/h5.hpp"
#include "harness/failure.hpp"

namespace parity::h5 {
namespace {

hid_t stored_type(Dtype dtype, std::size_t width) {
  if (dtype == Dtype::F64) return H5T_IEEE_F64LE;
  if (dtype == Dtype::F32) return H5T_IEEE_F32LE;
  if (dtype == Dtype::I64) return H5T_STD_I64LE;
  if (dtype == Dtype::I32) return H5T_STD_I32LE;
  if (dtype == Dtype::I16) return H5T_STD_I16LE;
  if (dtype == Dtype::I8) return H5T_STD_I8LE;
  return width == 4 ? H5T_STD_U32LE : width == 2 ? H5T_STD_U16LE : H5T_STD_U8LE;
}

Type text_type(const std::string& value) {
  Type type(H5Tcopy(H5T_C_S1));
  H5Tset_size(type.get(), std::max<std::size_t>(value.size(), 1));
  H5Tset_strpad(type.get(), H5T_STR_NULLPAD);
  H5Tset_cset(type.get(), H5T_CSET_UTF8);
  return type;
}

}  // namespace

Writer::Writer(const std::filesystem::path& path) : path_(path) {
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);  // what goes wrong is told below, once
  // No times in the file: the same content gives the same bytes.
  file_ = FileId(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
  if (!file_) throw UsageError(path.string() + ": cannot be written");
}

void Writer::attribute(const std::string& object, const std::string& name,
                       const std::string& value) {
  if (object != "/" && H5Lexists(file_.get(), object.c_str(), H5P_DEFAULT) <= 0) {
    const Plist plist(H5Pcreate(H5P_LINK_CREATE));
    H5Pset_create_intermediate_group(plist.get(), 1);
    const Group made(
        H5Gcreate2(file_.get(), object.c_str(), plist.get(), H5P_DEFAULT, H5P_DEFAULT));
    if (!made) throw Failure(path_.string() + ": cannot make " + object);
  }
  const Owned<H5Oclose> opened(H5Oopen(file_.get(), object.c_str(), H5P_DEFAULT));
  const Type type = text_type(value);
  const Space space(H5Screate(H5S_SCALAR));
  const Attribute made(
      H5Acreate2(opened.get(), name.c_str(), type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT));
  const std::string padded = value.empty() ? std::string(1, '\0') : value;
  if (!made || H5Awrite(made.get(), type.get(), padded.data()) < 0)
    throw Failure(path_.string() + ": cannot write attribute " + name + " of " + object);
}

void Writer::dataset(const std::string& path, const Tensor& tensor, bool contiguous) {
  const Dtype dtype = tensor.spec.dtype;
  std::vector<hsize_t> extents;
  for (const Dim& dim : tensor.spec.dims) extents.push_back(static_cast<hsize_t>(dim.extent));
  if (dtype == Dtype::E2M1) {
    if (extents.empty() || extents.back() % 2 != 0)
      throw Failure(path + ": an odd row of packed codes");
    extents.back() /= 2;
  }
  const std::size_t width =
      format(dtype).bits < 8 ? 1 : static_cast<std::size_t>(bytes_for(dtype, 1));
  const bool small = tensor.bytes.size() < 4096;
  const Plist links(H5Pcreate(H5P_LINK_CREATE));
  H5Pset_create_intermediate_group(links.get(), 1);
  const Plist creation(H5Pcreate(H5P_DATASET_CREATE));
  H5Pset_obj_track_times(creation.get(), false);
  if (!contiguous && !small) {
    H5Pset_chunk(creation.get(), static_cast<int>(extents.size()), extents.data());
    H5Pset_shuffle(creation.get());
    H5Pset_deflate(creation.get(), 6);
  }
  const Space space(extents.empty() ? H5Screate(H5S_SCALAR)
                                    : H5Screate_simple(static_cast<int>(extents.size()),
                                                       extents.data(), nullptr));
  const hid_t type = stored_type(dtype, width);
  const Dataset made(H5Dcreate2(file_.get(), path.c_str(), type, space.get(), links.get(),
                                creation.get(), H5P_DEFAULT));
  if (!made || (!tensor.bytes.empty() &&
                H5Dwrite(made.get(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, tensor.bytes.data()) < 0))
    throw Failure(path_.string() + ": cannot write " + path);
  attribute(path, "dtype",
            std::string(format(dtype).alias.empty() ? format(dtype).name : format(dtype).alias));
  std::string axes;
  for (const Dim& dim : tensor.spec.dims) axes += (axes.empty() ? "" : ",") + dim.name;
  attribute(path, "axes", axes);
}

void Writer::close() {
  if (H5Fflush(file_.get(), H5F_SCOPE_GLOBAL) < 0)
    throw Failure(path_.string() + ": cannot be flushed");
  file_ = FileId();
}

}  // namespace parity::h5

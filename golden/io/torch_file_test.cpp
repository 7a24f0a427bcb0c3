// Files of torch.save, written here by Python's own pickler in the way of torch (protocol 2,
// persistent ids for storages), and pickles that want more than weights.
#include <fstream>
#include <gtest/gtest.h>
#include <unistd.h>

#include "golden/io/tensor_file.hpp"
#include "harness/failure.hpp"

namespace parity::io {
namespace {

constexpr const char* kWriter = R"py(
import collections, pickle, struct, sys, types, zipfile
torch, utils, other = (types.ModuleType(n) for n in ('torch', 'torch._utils', 'os2'))
sys.modules.update({'torch': torch, 'torch._utils': utils, 'os2': other})
def function(module, name):
    def f(*a): raise RuntimeError
    f.__module__, f.__qualname__, f.__name__ = module.__name__, name, name
    setattr(module, name, f)
    return f
rebuild = function(utils, '_rebuild_tensor_v2')
parameter = function(utils, '_rebuild_parameter')
system = function(other, 'system')
for n in ('FloatStorage', 'BFloat16Storage', 'LongStorage'):
    c = type(n, (), {}); c.__module__ = 'torch'; setattr(torch, n, c)
class Storage:
    def __init__(self, kind, key, numel): self.id = ('storage', kind, key, 'cpu', numel)
class Call:
    def __init__(self, f, *a): self.f, self.a = f, a
    def __reduce__(self): return self.f, self.a
class Pickler(pickle.Pickler):
    def persistent_id(self, o): return o.id if isinstance(o, Storage) else None
def tensor(storage, offset, size, stride): return Call(rebuild, storage, offset, size, stride, False, collections.OrderedDict())
def save(path, tree, storages):
    import io
    out = io.BytesIO(); Pickler(out, protocol=2).dump(tree)
    with zipfile.ZipFile(path, 'w') as z:
        z.writestr('a/data.pkl', out.getvalue())
        z.writestr('a/byteorder', 'little')
        for k, v in storages.items(): z.writestr('a/data/' + k, v)
f = Storage(torch.FloatStorage, '0', 6)
b = Storage(torch.BFloat16Storage, '1', 2)
data = {'0': struct.pack('<6f', *range(6)), '1': struct.pack('<2H', 0x3f80, 0xc000)}
od = collections.OrderedDict([('w', tensor(f, 0, (2, 3), (3, 1))), ('t', tensor(f, 0, (3, 2), (1, 3))),
  ('tail', tensor(f, 4, (2,), (1,))), ('p', Call(parameter, tensor(b, 0, (2,), (1,)), True, collections.OrderedDict()))])
save('good.pt', {'model': od, 'epoch': 3, 'lr': 0.5, 'name': 'x', 'list': [tensor(f, 1, (), ())], 'big': 1 << 40}, data)
save('one.pt', tensor(f, 0, (6,), (1,)), data)
save('evil.pt', {'w': Call(system, 'echo hacked')}, data)
save('beyond.pt', {'w': tensor(f, 4, (3,), (1,))}, data)
save('negative.pt', {'w': tensor(f, 4, (3,), (-1,))}, data)
save('repeated.pt', {'w': tensor(f, 0, (1 << 40,), (0,))}, data)
save('liar.pt', {'w': tensor(Storage(torch.FloatStorage, '0', 1 << 30), 0, (1 << 29,), (2,))}, data)
save('absent.pt', {'w': tensor(Storage(torch.FloatStorage, '7', 6), 0, (6,), (1,))}, data)
loop = []; loop.append(loop)
save('loop.pt', loop, data)
good = zipfile.ZipFile('good.pt').read('a/data.pkl')
for n, p in (('short', good[:40]), ('empty', b'.'), ('opcode', b'\x80\x02i'), ('memo', b'\x80\x02h\x09.')):
    with zipfile.ZipFile(n + '.pt', 'w') as z: z.writestr('a/data.pkl', p)
with zipfile.ZipFile('none.pt', 'w') as z: z.writestr('a/b', 'c')
)py";

TEST(TorchFiles, WeightsAreReadAndNothingIsCalled) {
  const fs::path dir = fs::temp_directory_path() / ("parity_pt_" + std::to_string(getpid()));
  fs::create_directories(dir);
  std::ofstream(dir / "make.py") << kWriter;
  if (std::system(("cd " + dir.string() + " && /usr/bin/python3 make.py").c_str()))
    GTEST_SKIP() << "no Python here";
  const TensorFile file = open(dir / "good.pt");
  ASSERT_EQ(file.tensors().size(), 5u);
  const auto values = [&](const std::string& name) {
    return file.read(*file.find(name)).widened();
  };
  EXPECT_EQ(values("model.w"), (std::vector<double>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(values("model.t"), (std::vector<double>{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(values("model.tail"), (std::vector<double>{4, 5}));
  EXPECT_EQ(values("model.p"), (std::vector<double>{1, -2}));
  EXPECT_EQ(values("list.0"), std::vector<double>{1});
  EXPECT_EQ(open(dir / "one.pt").read(0).widened().size(), 6u);

  const std::pair<const char*, const char*> bad[] = {{"evil.pt", "wants to call os2 system"},
                                                     {"beyond.pt", "reaches beyond"},
                                                     {"negative.pt", "reaches beyond"},
                                                     {"repeated.pt", "claims"},
                                                     {"liar.pt", "fewer than it says"},
                                                     {"absent.pt", "storage is missing"},
                                                     {"loop.pt", "nested too deeply"},
                                                     {"short.pt", "cut short"},
                                                     {"empty.pt", "empty stack"},
                                                     {"opcode.pt", "opcode 105"},
                                                     {"memo.pt", "never kept"},
                                                     {"none.pt", "no data.pkl"}};
  for (const auto& [name, words] : bad) try {
      (void)open(dir / name).read(0);
      ADD_FAILURE() << name << " was read";
    } catch (const UsageError& error) {
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  fs::remove_all(dir);
}

}  // namespace
}  // namespace parity::io

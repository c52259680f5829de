#include "platform/library.h"

#include <dlfcn.h>

#include <mutex>

namespace etir {
namespace host {

namespace {

struct Registry {
  std::mutex mutex;
  std::vector<void*> handles;
  std::shared_ptr<const Libraries> loaded = std::make_shared<const Libraries>();
};

Registry& registry() {
  // Never destroyed: threads may load programs while the process ends.
  static Registry* const only = new Registry;
  return *only;
}

/// The table that a library exports under a name, or null; `*exported` says whether there is such a function at all.
template <typename Table>
const Table* exported_table(void* library, const char* name, uint32_t abi, bool* exported) {
  using Entry = const Table* (*)(uint32_t);
  const Entry entry = reinterpret_cast<Entry>(dlsym(library, name));
  *exported = *exported || entry != nullptr;
  return entry == nullptr ? nullptr : entry(abi);
}

}  // namespace

Status load_library(const std::string& path, LibraryContents* contents) {
  // A name without a folder would be looked for where the system keeps its libraries.
  const std::string file = path.find('/') == std::string::npos ? "./" + path : path;
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    return refusal(Error::AccessFailed, "cannot load the library '" + path + "': " + (why == nullptr ? "?" : why));
  }
  bool has_kernels = false, has_backends = false;
  const auto* kernels = exported_table<KernelTable>(library, "etir_kernel_table", kKernelAbi, &has_kernels);
  const auto* backends = exported_table<BackendTable>(library, "etir_backend_table", kBackendAbi, &has_backends);
  if ((has_kernels && kernels == nullptr) || (has_backends && backends == nullptr)) {
    dlclose(library);
    return refusal(
        Error::NotSupported,
        "the library '" + path +
            "' was built against another version of etir's runtime; build it again with the headers of this one");
  }
  if (!has_kernels && !has_backends) {
    dlclose(library);
    return refusal(Error::InvalidArgument, "the library '" + path +
                                               "' has neither kernels nor backends of etir: it exports neither "
                                               "etir_kernel_table nor etir_backend_table");
  }
  if (contents != nullptr) {
    for (uint32_t i = 0; kernels != nullptr && i < kernels->count; ++i) {
      contents->operators.push_back(kernels->rows[i].name);
    }
    for (uint32_t i = 0; backends != nullptr && i < backends->count; ++i) {
      contents->backends.push_back(backends->rows[i].name);
    }
  }
  Registry& all = registry();
  const std::lock_guard<std::mutex> lock(all.mutex);
  for (void* const handle : all.handles) {
    if (handle != library) continue;
    dlclose(library);  // one reference is enough
    return Status();
  }
  all.handles.push_back(library);
  auto next = std::make_shared<Libraries>();
  if (kernels != nullptr) next->kernels.push_back(*kernels);
  if (backends != nullptr) next->backends.assign(backends->rows, backends->rows + backends->count);
  next->kernels.insert(next->kernels.end(), all.loaded->kernels.begin(), all.loaded->kernels.end());
  next->backends.insert(next->backends.end(), all.loaded->backends.begin(), all.loaded->backends.end());
  all.loaded = std::move(next);
  return Status();
}

std::shared_ptr<const Libraries> loaded_libraries() {
  Registry& all = registry();
  const std::lock_guard<std::mutex> lock(all.mutex);
  return all.loaded;
}

}  // namespace host
}  // namespace etir

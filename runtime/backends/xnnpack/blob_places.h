// What can be changed in XNNPACK blobs: for the fuzzers, not part of the runtime.
#pragma once

#include <vector>

#include "executor/file_places.h"

namespace etir {
namespace xnnpack {

/// The places of all blobs in a file, which are found by how they begin: headers, tables of the graph (values, scales,
/// nodes of each kind, constants), and some bytes of the constants.
void blob_places(const uint8_t* file, size_t size, std::vector<Place>& places);

}  // namespace xnnpack
}  // namespace etir

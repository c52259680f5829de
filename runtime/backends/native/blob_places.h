// What can be changed in blobs of native code: for the fuzzers, not part of the runtime.
#pragma once

#include <vector>

#include "executor/file_places.h"

namespace etir {
namespace native {

/// The places of all blobs in a file, which are found by how they begin: the header, and every number of the tables of
/// tensors, weights, constants and variants as far as they can be walked; digests and some bytes of images.
void blob_places(const uint8_t* file, size_t size, std::vector<Place>& places);

}  // namespace native
}  // namespace etir

// Writes a recording as an ETDump, the profile format of ExecuTorch's developer tools: .etdp files.
//
// emit/etdump/from_records.py does the same in Python, for records that come from elsewhere.
#pragma once

#include <string>

#include "devtools/recording.h"
#include "platform/host_module.h"

namespace etir {
namespace host {

/// The bytes of the file: a block for loading, then one for each run. Values are places in the recording's
/// value_bytes(), which go into a file of their own. Empty when there is more than a FlatBuffer can address.
std::string write_etdump(const Recording& recording, const Method& method);

}  // namespace host
}  // namespace etir

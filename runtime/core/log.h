// The hook that takes the log's lines. What it does is the platform's (platform/platform.cc has a default); it is
// declared here because the core calls it, and includes nothing from the folders that are built on it.
#pragma once

#include <cstddef>

extern "C" {

/// Takes a line of text, `size` characters without a line end. The default writes to standard error where there is one.
void etir_platform_log(const char* text, size_t size);
}

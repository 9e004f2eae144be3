#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "meshbus/proc_mesh.h"

namespace meshbus::cli {

/// "027". Errors: parse_error, with the expected form.
Result<unsigned> parse_umask(std::string_view text);
/// "0-3,8": at most 1024 CPUs, below 1024. Errors: parse_error.
Result<std::vector<std::uint32_t>> parse_cpu_set(std::string_view text);
/// "512MiB", "1.5G", "64m": bytes. Errors: parse_error.
Result<std::uint64_t> parse_memory(std::string_view text);
/// "1.5", from 0.01, with three decimal places at most. Errors: parse_error.
Result<double> parse_cpus(std::string_view text);
/// "core=0", "nofile=1024:4096", "as=2G", "cpu=unlimited". Errors: parse_error.
Result<ResourceLimit> parse_rlimit(std::string_view text);

}  // namespace meshbus::cli

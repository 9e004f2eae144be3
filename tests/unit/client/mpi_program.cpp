#include "client/src/mpi/mpi_program.h"

#include <doctest/doctest.h>

#include <unistd.h>

#include "client/src/mpi/needed_libraries.h"
#include "tests/support/temp_dir.h"

using namespace meshbus;

TEST_CASE("mpi_program: which library speaks what") {
  for (const char* soname : {"libmpich.so.12", "libmpi.so.12", "libmpifort.so.12",
                             "libmpichfort.so.12", "libmpi_gnu_112.so.12", "libmpi_cray.so.12"})
    CHECK(wire_of_library(soname) == MpiWire::pmi1);
  for (const char* soname : {"libmpi.so.40", "libmpi_mpifh.so.40", "libmpi_usempif08.so.40"})
    CHECK(wire_of_library(soname) == MpiWire::pmix);
  for (const char* soname : {"libm.so.6", "libmpi4py.so", "libmpir.so.3", "libmpfr.so.6"})
    CHECK_FALSE(wire_of_library(soname));
}

TEST_CASE("mpi_program: a Python program imports MPI when it does so without a condition") {
  CHECK(imports_mpi4py("import sys\nfrom mpi4py import MPI\n"));
  CHECK(imports_mpi4py("import mpi4py.MPI as m"));
  CHECK_FALSE(imports_mpi4py("try:\n  from mpi4py import MPI\nexcept ImportError:\n  pass\n"));
  CHECK_FALSE(imports_mpi4py("# from mpi4py import MPI\nimport mpi4py\n"));
}

TEST_CASE("mpi_program: the script in a Python command line is found") {
  const test::TempDir dir;
  const auto script = dir.write("a.py", "from mpi4py import MPI\n");
  const auto no_variables = [](const char*) { return std::string("/usr/bin:/bin"); };
  CHECK(find_mpi({"/x/python3", "-u", "-X", "dev", script, "-m"}, no_variables));
  CHECK(find_mpi({"/x/python3", "-c", "from mpi4py import MPI"}, no_variables));
  CHECK_FALSE(find_mpi({"/x/python3", "-m", "mpi4py"}, no_variables));
  CHECK_FALSE(find_mpi({"sh", "-c", script}, no_variables));
  CHECK(find_mpi({dir.write("b", "#!/usr/bin/env python3\nfrom mpi4py import MPI\n", true)},
                 no_variables));
}

TEST_CASE("needed_libraries: those of an ELF file, and none of what is not one") {
  const test::TempDir dir;
  const auto own = read_needs("/proc/self/exe");
  CHECK(std::any_of(own.libraries.begin(), own.libraries.end(),
                    [](const auto& one) { return one.starts_with("libc.so"); }));
  // zmq is linked with others in its turn.
  CHECK(all_needed_libraries("/proc/self/exe", "").size() > own.libraries.size() / 2);
  CHECK(read_needs("/no/such/file").libraries.empty());
  CHECK(read_needs(dir.write("text", "#!/bin/sh\n")).libraries.empty());
  // Whatever is cut off is no reason to read beyond.
  const auto whole = test::read_file("/bin/true");
  for (std::size_t size = 0; size < whole.size(); size += 97) [[maybe_unused]]
    const auto needs = read_needs(dir.write("cut", whole.substr(0, size)));
}

/* An MPI program for the tests: ring [MODE [RANK [VALUE]]]. That rank does what MODE says when all
 * ranks have met: abort, exit (with VALUE), kill, hang, spawn, file (make the file VALUE and wait to
 * be killed). All others go on to use each other. Rank 0 says whether what came round was right. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void act(const char* mode, const char* value) {
  if (!strcmp(mode, "abort")) MPI_Abort(MPI_COMM_WORLD, atoi(value));
  if (!strcmp(mode, "exit")) exit(atoi(value));
  if (!strcmp(mode, "kill")) raise(SIGKILL);
  if (!strcmp(mode, "hang")) pause();
  if (!strcmp(mode, "spawn")) {
    MPI_Comm child;
    MPI_Comm_spawn("/bin/true", MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &child,
                   MPI_ERRCODES_IGNORE);
  }
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, size = 0, near = 0, token = 0, sum = 0;
  MPI_Comm node;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  MPI_Comm_size(node, &near);
  const int left = (rank + size - 1) % size, right = (rank + 1) % size;
  if (rank > 0) MPI_Recv(&token, 1, MPI_INT, left, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  ++token;
  if (size > 1) MPI_Send(&token, 1, MPI_INT, right, 0, MPI_COMM_WORLD);
  if (size > 1 && rank == 0)
    MPI_Recv(&token, 1, MPI_INT, left, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  printf("rank %d of %d, %d here\n", rank, size, near);
  fflush(stdout);
  if (argc > 3) MPI_Barrier(MPI_COMM_WORLD); /* all have written their line */
  if (argc > 3 && rank == atoi(argv[2])) act(argv[1], argv[3]);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) puts(token == size && sum == size * (size - 1) / 2 ? "right" : "WRONG");
  MPI_Finalize();
  return 0;
}

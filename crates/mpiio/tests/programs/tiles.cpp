// Tiles of a matrix from C++: subarrays, written together, read back by columns.
#include <mpi.h>

#include <cstdio>
#include <numeric>
#include <vector>

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const int rows = 16, columns = 5 * ranks;
    int sizes[2] = {rows, columns}, parts[2] = {rows, 5}, starts[2] = {0, 5 * rank};
    MPI_Datatype tile;
    MPI_Type_create_subarray(2, sizes, parts, starts, MPI_ORDER_C, MPI_DOUBLE, &tile);
    MPI_Type_commit(&tile);
    std::vector<double> mine(rows * 5), back(rows * 5, -1.0);
    std::iota(mine.begin(), mine.end(), 1000.0 * rank);
    MPI_File file;
    MPI_Status status;
    int bad = 0, count = 0, wrong = 0;
    bad |= MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file);
    bad |= MPI_File_set_view(file, 64, MPI_DOUBLE, tile, "native", MPI_INFO_NULL);
    bad |= MPI_File_write_all(file, mine.data(), (int)mine.size(), MPI_DOUBLE, &status);
    MPI_Get_count(&status, MPI_DOUBLE, &count);
    bad |= MPI_File_read_at_all(file, 0, back.data(), (int)back.size(), MPI_DOUBLE, &status);
    bad |= MPI_File_close(&file);
    MPI_Type_free(&tile);
    const int here = bad != 0 || count != rows * 5 || back != mine;
    MPI_Allreduce(&here, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) std::printf("%d wrong\n", wrong);
    MPI_Finalize();
    return wrong != 0;
}

/* A program that calls MPI_File_open without any MPI, or, with OWN, with one of its own linked into it: the parts of it that count. */
#include <stdio.h>

int MPI_File_open(void *comm, const char *name, int amode, void *info, void **file);

#ifdef OWN
int MPI_Init(int *argc, char ***argv) { return !argc || !argv; }
int PMPI_Init_thread(int *argc, char ***argv, int required, int *provided) { *provided = required; return MPI_Init(argc, argv); }
int PMPI_File_open(void *comm, const char *name, int amode, void *info, void **file) {
    (void)comm; (void)name; (void)amode; (void)info;
    *file = 0;
    return 7;
}
int MPI_File_open(void *comm, const char *name, int amode, void *info, void **file) {
    return PMPI_File_open(comm, name, amode, info, file);
}
#endif

int main(void) {
    void *file = 0;
    printf("returned %d\n", MPI_File_open(0, "nothing", 2, 0, &file));
    return 0;
}

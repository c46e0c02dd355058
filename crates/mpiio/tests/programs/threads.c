/* Two threads complete requests that fail, while a third one makes calls that fail for reasons of their own: each error goes to the handler it belongs to. No
   write of the device succeeds. */
#include "log.h"
#include <pthread.h>

enum { ROUNDS = 200 };

static int wrong, foreign;
static MPI_File files[2];
static pthread_t threads[3];

/* By thread and not by class: in MPICH 4.0.2 an error takes the class of a generalized request that fails in another thread at the same time. */
static void on_world(MPI_Comm *comm, int *code, ...) {
    (void)comm, (void)code;
    __atomic_add_fetch(pthread_equal(pthread_self(), threads[2]) ? &foreign : &wrong, 1, __ATOMIC_SEQ_CST);
}

static void *complete(void *which) {
    for (int i = 0; i < ROUNDS; i++) {
        char byte = 'x';
        int class = MPI_SUCCESS, code, flag = 0;
        MPI_Request request;
        MPI_File_iwrite_at(*(MPI_File *)which, 0, &byte, 1, MPI_CHAR, &request);
        if (i % 2) code = MPI_Wait(&request, MPI_STATUS_IGNORE);
        else for (code = MPI_SUCCESS; !flag && !code;) code = MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
        if (code != MPI_SUCCESS) MPI_Error_class(code, &class);
        if (class != MPI_ERR_IO) __atomic_add_fetch(&wrong, 1, __ATOMIC_SEQ_CST);
    }
    return NULL;
}

static void *fail(void *unused) {
    int data = 0;
    for (int i = 0; i < ROUNDS; i++) MPI_Send(&data, 1, MPI_INT, 12345, 0, MPI_COMM_WORLD);
    return unused;
}

int main(int argc, char **argv) {
    MPI_Errhandler own, now;
    char name[4100];
    begin(&argc, &argv);
    MPI_Comm_create_errhandler(on_world, &own);
    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "%s-%d-%d", argv[1], rank, i);
        if (MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &files[i])) return 3;
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, own);
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, complete, &files[i]);
    pthread_create(&threads[2], NULL, fail, NULL);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &now);
    if (now != own) wrong++, fprintf(stderr, "rank %d: the program's handler is gone\n", rank);
    MPI_Errhandler_free(&now);
    if (foreign != ROUNDS || wrong) fprintf(stderr, "rank %d: %d of %d foreign errors, %d wrong\n", rank, foreign, ROUNDS, wrong);
    wrong |= foreign != ROUNDS;
    for (int i = 0; i < 2; i++) MPI_File_close(&files[i]);
    MPI_Errhandler_free(&own);
    finish();
    return wrong != 0;
}

/* The same file of packets in plain MPI-IO: the last step is read by all ranks, steps are appended, each packet once.
   No commit, no checksums, no description of the file; MPI_ERRORS_ARE_FATAL saves the error codes. */
#include <mpi.h>
#include <stddef.h>

enum { D = 2 };

struct packet {
    double flag;
    double position[D];
    double velocity[D];
    double mass;
    double entropy;
    double deformation[D][D];
    double deformation_rate[D][D];
};

struct packet_file {
    MPI_File file;
    MPI_Datatype packet;
    MPI_Datatype share;
    int first;
    int count;
};

/* lines of I/O: begin */
static MPI_Datatype describe_packet(void) {
    int lengths[7] = {1, D, D, 1, 1, D * D, D * D};
    MPI_Aint places[7] = {
        offsetof(struct packet, flag),
        offsetof(struct packet, position),
        offsetof(struct packet, velocity),
        offsetof(struct packet, mass),
        offsetof(struct packet, entropy),
        offsetof(struct packet, deformation),
        offsetof(struct packet, deformation_rate),
    };
    MPI_Datatype types[7] = {MPI_DOUBLE, MPI_DOUBLE, MPI_DOUBLE, MPI_DOUBLE, MPI_DOUBLE, MPI_DOUBLE, MPI_DOUBLE};
    MPI_Datatype structure, packet;
    MPI_Type_create_struct(7, lengths, places, types, &structure);
    MPI_Type_create_resized(structure, 0, sizeof(struct packet), &packet);
    MPI_Type_commit(&packet);
    MPI_Type_free(&structure);
    return packet;
}

long read_last(MPI_Comm comm, int master, const char *name, int count, struct packet *packets) {
    int rank;
    MPI_Comm_rank(comm, &rank);
    MPI_Datatype packet = describe_packet();
    MPI_Offset size = 0;
    long steps = 0;
    if (!master || rank == 0) {
        MPI_File file;
        MPI_Comm reader = master ? MPI_COMM_SELF : comm;
        MPI_File_open(reader, (char *)name, MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
        MPI_File_get_size(file, &size);
        steps = size / (count * (MPI_Offset)sizeof(struct packet));
        MPI_Offset last = (steps > 0 ? steps - 1 : 0) * count;
        MPI_File_set_view(file, 0, packet, packet, "native", MPI_INFO_NULL);
        MPI_File_read_at_all(file, last, packets, count, packet, MPI_STATUS_IGNORE);
        MPI_File_close(&file);
    }
    if (master) {
        MPI_Bcast(packets, count, packet, 0, comm);
        MPI_Bcast(&steps, 1, MPI_LONG, 0, comm);
    }
    MPI_Type_free(&packet);
    return steps;
}

void open_packets(MPI_Comm comm, int master, const char *name, int count, long steps, struct packet_file *out) {
    int rank, ranks;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    out->file = MPI_FILE_NULL;
    out->count = 0;
    if (master && rank > 0)
        return;
    out->first = master ? 0 : (int)((long)count * rank / ranks);
    out->count = master ? count : (int)((long)count * (rank + 1) / ranks) - out->first;
    out->packet = describe_packet();
    MPI_Comm writer = master ? MPI_COMM_SELF : comm;
    int mode = MPI_MODE_RDWR | (steps < 0 ? MPI_MODE_CREATE | MPI_MODE_EXCL : 0);
    MPI_File_open(writer, (char *)name, mode, MPI_INFO_NULL, &out->file);
    MPI_Datatype part;
    int lengths[1] = {out->count};
    int starts[1] = {out->first};
    MPI_Type_indexed(1, lengths, starts, out->packet, &part);
    MPI_Type_create_resized(part, 0, count * (MPI_Aint)sizeof(struct packet), &out->share);
    MPI_Type_commit(&out->share);
    MPI_Type_free(&part);
    MPI_File_set_view(out->file, 0, out->packet, out->share, "native", MPI_INFO_NULL);
    MPI_File_seek(out->file, (steps < 0 ? 0 : steps) * (MPI_Offset)out->count, MPI_SEEK_SET);
}

void write_packets(struct packet_file *out, struct packet *packets) {
    if (out->file == MPI_FILE_NULL)
        return;
    MPI_File_write_all(out->file, packets + out->first, out->count, out->packet, MPI_STATUS_IGNORE);
    MPI_File_sync(out->file);
}

void close_packets(struct packet_file *out) {
    if (out->file == MPI_FILE_NULL)
        return;
    MPI_File_close(&out->file);
    MPI_Type_free(&out->share);
    MPI_Type_free(&out->packet);
}
/* lines of I/O: end */

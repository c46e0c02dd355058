//! The models, each as a test. `LOOM_MAX_PREEMPTIONS` makes them explore more, `LOOM_LOG=1` with `LOOM_LOCATION=1` shows where one fails.

use aqueduct_model_checks::{background_queue, futex_barrier, message_matching, pending_table};

#[test]
fn loom_barrier_two_ranks_twice() {
    futex_barrier::writes_before_a_barrier_are_read_after_it(2, 2, 3);
}

#[test]
fn loom_barrier_three_ranks() {
    futex_barrier::writes_before_a_barrier_are_read_after_it(3, 1, 2);
}

#[test]
fn loom_barrier_a_rank_that_fails_ends_the_waits_of_all_others() {
    futex_barrier::a_rank_that_fails_ends_the_waits_of_all_others();
}

#[test]
fn loom_barrier_a_concurrent_failure_aborts_the_barrier_on_all_ranks_or_none() {
    futex_barrier::a_concurrent_failure_aborts_the_barrier_on_all_ranks_or_none();
}

#[test]
fn loom_barrier_a_concurrent_failure_does_not_abort_a_barrier_with_the_policy_complete() {
    futex_barrier::a_concurrent_failure_does_not_abort_a_certain_barrier();
}

#[test]
fn loom_mailbox_messages_of_a_rank_that_leaves_are_received() {
    message_matching::messages_of_a_rank_that_leaves_are_received();
}

#[test]
fn loom_mailbox_a_wait_for_a_rank_that_leaves_ends() {
    message_matching::a_wait_for_a_rank_that_leaves_ends();
}

#[test]
fn loom_mailbox_a_wait_ends_when_a_rank_fails() {
    message_matching::a_wait_ends_when_a_rank_fails();
}

#[test]
fn loom_mailbox_messages_of_two_ranks_are_received_once_each() {
    message_matching::messages_of_two_ranks_are_received_once_each();
}

#[test]
fn loom_mailbox_a_cancelled_receive_gives_its_message_to_the_next() {
    message_matching::a_cancelled_receive_gives_its_message_to_the_next();
}

#[test]
fn loom_pending_table_an_access_waits_for_writes_accepted_before() {
    pending_table::an_access_waits_for_writes_accepted_before();
}

#[test]
fn loom_pending_table_an_access_is_not_confused_by_later_writes() {
    pending_table::an_access_is_not_confused_by_later_writes();
}

#[test]
fn loom_pending_table_an_access_of_the_next_collective_call_waits() {
    pending_table::an_access_of_the_next_collective_call_waits();
}

#[test]
fn loom_pending_table_a_wait_requests_a_flush() {
    pending_table::a_wait_requests_a_flush();
}

#[test]
fn loom_pending_table_a_wait_ends_when_the_write_fails() {
    pending_table::a_wait_ends_when_the_write_fails();
}

#[test]
fn loom_background_queue_jobs_are_done_in_order_when_the_wait_ends() {
    background_queue::jobs_are_done_in_order_when_the_wait_ends();
}

#[test]
fn loom_background_queue_jobs_of_two_threads_are_done_before_the_queue_ends() {
    background_queue::jobs_of_two_threads_are_done_before_the_queue_ends();
}

#[test]
fn loom_background_queue_a_wait_ends_while_another_thread_submits() {
    background_queue::a_wait_ends_while_another_thread_submits();
}

#[test]
fn loom_background_queue_a_wait_ends_when_a_job_detaches_the_queue() {
    background_queue::a_wait_ends_when_a_job_detaches_the_queue();
}
